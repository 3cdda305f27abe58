/* Standard output of picolibc: the platform's console takes bytes. */
#include <stdio.h>

static int put(char c, FILE *file)
{
    (void)file;
    *(volatile unsigned char *)0x1A10F000 = (unsigned char)c;
    return (unsigned char)c;
}

static FILE console = FDEV_SETUP_STREAM(put, NULL, NULL, _FDEV_SETUP_WRITE);
FILE *const stdout = &console;
