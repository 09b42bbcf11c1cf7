#!/bin/sh
# compile-commands.sh "COMPILER AND FLAGS" FILES...: compile_commands.json for editors.
command=$1
shift
flags=$(printf '%s' "$command" | sed 's/\\/\\\\/g; s/"/\\"/g')
for f in "$@"; do
    printf '{"directory": "%s", "file": "%s", "command": "%s -c %s"},\n' "$PWD" "$f" "$flags" "$f"
done | sed '1s/^/[/; $s/,$/]/' > compile_commands.json
