# guides.py ROOT: what docs/seeds.md names is there. Rows have three cells: what a guide says, what it is here, where that is shown.
import glob, os, re, sys

root = sys.argv[1]
read = lambda name: open(os.path.join(root, name), errors="replace").read()
headers = "".join(read(os.path.relpath(p, root)) for p in glob.glob(root + "/include/reprise/*.h"))
config, env, cli, logs = (read(f"docs/{p}.md") for p in ("config", "env", "cli", "logs"))
has = lambda text, word: re.search(rf"(?<![\w-]){re.escape(word)}(?![\w])", text) is not None
bad = []


def check(span, near):
    """What a piece of code in a cell names; near: the texts of the files in the last cell."""
    for word in re.findall(r"\b(?:rp|RP)_\w+", span):
        if not has(headers + near, word): yield f"no {word} in include/reprise"
    for word in re.findall(r"\b(?:REPRISE|VLLM|TORCH)_[A-Z_]+", span):
        if not has(env, word): yield f"no {word} in docs/env.md"
    for word in re.findall(r"REPRISE_LOGS=([\w,+]+)|\[(\w+)\] ", span):
        for name in re.split(r"[,+]", "".join(word)):
            if name and f"### `{name}`" not in logs and f"`{name}`" not in logs: yield f"no channel {name}"
    for flag in re.findall(r"(?<!\S)--[a-z][a-z-]+", span):
        if f"`{flag}" not in cli and f", {flag}" not in cli: yield f"no flag {flag}"
    for command in re.findall(r"^reprise (\w+)", span):
        if f"## reprise {command}" not in cli: yield f"no command {command}"
    for setting in re.findall(r"-cc\.([\w.]+)", span):
        if f"`{setting}`" not in config: yield f"no setting {setting}"
    if re.fullmatch(r"[a-z][a-z0-9_]*(\.[a-z_]+)?(=\S+)?", span):
        name = span.split("=")[0]
        if not has(config + headers + logs + cli + near, name) and not os.path.exists(f"{root}/{name}"):
            yield f"nothing is called {name}"


def is_path(span):
    return re.fullmatch(r"(test|examples|src|docs|bench|include|tools|scripts)/[\w./-]+|[A-Z]+\.md", span)


rows = 0
for line in read("docs/seeds.md").split("\n"):
    if not line.startswith("|") or line.startswith(("| there", "|---")): continue
    rows += 1
    cells = [c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]]
    if len(cells) != 3:
        bad.append(f"{len(cells)} cells: {line}")
        continue
    if not cells[2] and "**none**" not in cells[1] and "**not yet**" not in cells[1]:
        bad.append(f"nothing shows it: {line}")
    spans = re.findall(r"`([^`]+)`", cells[1] + " " + cells[2])
    paths = [s for s in spans if is_path(s)]
    bad += [f"no {p}: {line}" for p in paths if not os.path.exists(f"{root}/{p}")]
    near = "".join(read(p) for p in paths if os.path.isfile(f"{root}/{p}"))
    for span in spans:
        if not is_path(span): bad += [f"{why}: {line}" for why in check(span, near)]
print(*bad, sep="\n")
sys.exit(1 if bad or rows < 200 else 0)
