/* See stored_cc.h. */
#include "support/stored_cc.h"

#include <sys/stat.h>

#include "support/check.h"
#include "support/trees.h"

/* The last three arguments are SOURCE -o OBJECT. */
static const char script[] = "#!/bin/sh\n"
                             "case $1 in --version) echo 'gcc that remembers 1.0'; exit 0 ;; esac\n"
                             "for a in \"$@\"; do c=$b b=$o o=$a; done\n"
                             "k=${0%/*}/$(cksum <\"$c\" | tr ' ' -)\n"
                             "[ -f \"$k\" ] && exec cp \"$k\" \"$o\"\n"
                             "gcc \"$@\" && cp \"$o\" \"$k.$$\" && mv \"$k.$$\" \"$k\"\n";

void stored_cc_install(void) {
    char path[512];
    const char *dir = tree_new("cc");
    tree_write(dir, "cc", script, sizeof script - 1);
    (void)snprintf(path, sizeof path, "%s/cc", dir);
    if (chmod(path, 0700) != 0 || setenv("REPRISE_CC", path, 1) != 0)
        fail_msg("cannot make %s", path);
}
