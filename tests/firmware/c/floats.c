/* Prints floats, one a line. */

#include "pulp.h"

static const float values[] = {FLOATS};

int main(void)
{
    for (unsigned i = 0; i < sizeof values / sizeof *values; i++) {
        console_float(values[i]);
        console_character('\n');
    }
    return 0;
}
