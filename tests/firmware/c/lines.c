/* All cores print at once, and the fabric controller after them. */
#include "pulp.h"

#define LINES 3

static void print(void *unused)
{
    (void)unused;
    for (int line = 0; line < LINES; line++) {
        console_text("core ");
        console_number(core_id());
        console_text(", line ");
        console_number(line);
        console_character('\n');
    }
}

static void work(void *unused) { cluster_fork(cluster_cores(), print, unused); }

int main(void)
{
    cluster_run(work, 0);
    console_text("done\n");
    return 0;
}
