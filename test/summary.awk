# Reads the logs that run.sh wrote and prints failures, skips and the closing line.
# A log ends with "exit CODE LIMIT". Results are cmocka's or PASS / FAIL / SKIP lines.
function done(kind, name, why) {
    n[kind]++
    in_file[kind]++
    if (kind == "passed") return
    printf "%s %s/%s%s\n", kind == "failed" ? "FAIL" : "SKIP", prog, name, why == "" ? "" : ": " why
    if (kind == "failed") show = 1
}
FNR == 1 {
    prog = FILENAME
    sub(root, "", prog)
    sub(/^test\//, "", prog)
    sub(/\.out$/, "", prog)
    delete in_file
    running = reason = ""
    show = n_lines = 0
}
/^exit [0-9]+ [0-9]+$/ {
    code = $2
    if (running != "")
        done("failed", running, code == 124 || code == 137 ? "no end within " $3 " s" : "ended the program, exit " code)
    else if (code != 0 && !in_file["failed"])
        done("failed", "exit", code == 124 || code == 137 ? "no end within " $3 " s" : "exit code " code)
    else if (code == 0 && in_file["passed"] + in_file["skipped"] + in_file["failed"] == 0) {
        if (prog ~ /^examples\//) done("passed", "run")
        else done("failed", "results", "it ran no test")
    }
    if (show) {
        first = n_lines > 60 ? n_lines - 60 : 0
        for (i = first; i < n_lines; i++) print "    | " lines[i]
    }
    next
}
{ lines[n_lines++] = $0 }
sub(/^\[ RUN      \] /, "") { running = $0; reason = ""; next }
running == "" && sub(/^PASS /, "") { done("passed", $0); next }
running == "" && sub(/^FAIL /, "") { done("failed", $0); next }
running == "" && sub(/^SKIP /, "") {
    if ($0 ~ /: ./) done("skipped", $0)
    else done("failed", $0, "skipped without a reason")
    next
}
running == "" { next }
sub(/^skip: /, "") { reason = $0; next }
$0 == "[       OK ] " running { done("passed", running); running = ""; next }
$0 == "[  FAILED  ] " running || $0 == "[  ERROR   ] " running { done("failed", running); running = ""; next }
$0 == "[  SKIPPED ] " running {
    if (reason != "") done("skipped", running, reason)
    else done("failed", running, "skipped without a reason")
    running = ""
}
END {
    if (n["failed"]) print "(output that a change explains: BLESS=1 make test rewrites the expected texts)"
    printf "%d passed, %d failed, %d skipped\n", n["passed"], n["failed"], n["skipped"]
    exit n["failed"] > 0 || n["passed"] == 0
}
