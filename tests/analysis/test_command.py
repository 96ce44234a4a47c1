import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geode.analysis.command import UNPARSED, CommandAnalysis, analyse
from geode.analysis.places import lexical_scopes, looks_secret
from geode.core.effects import Effect, Scope

HOME = "/home/u"
CWD = "/home/u/project"


def run(command: str) -> CommandAnalysis:
    return analyse(command, CWD, HOME)


def contained(command: str) -> bool:
    """Whether the default rules would let it run: understood, only reads of the workspace."""
    found = run(command)
    fine = {
        (Effect.READ, Scope.WORKSPACE),
        (Effect.READ, Scope.PROTECTED),
        (Effect.READ, Scope.TEMP),
        (Effect.EXECUTE, Scope.SANDBOX),
    }
    return found.understood and all((i.kind, i.scope) in fine for i in found.impacts)


def deletes(command: str) -> set[Scope]:
    return {i.scope for i in run(command).impacts if i.kind is Effect.DELETE}


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf ~",
        "rm -rf $HOME",
        'rm -rf "$HOME"',
        "rm -rf ${HOME}/",
        'rm -rf "/"',
        "rm -rf -- ~/",
        "rm  -fr ~/*",
        "rm -r -f ~/.",
        "rm -rf ~/project/..",
        "rm -rf ..",
        "rm -rf ../../u",
        "rm -rf /home",
        "rm -rf /*",
        "rm -rf /h*/u",
        "rm -rf //",
        "rm --recursive --force /usr",
        "cd / && rm -rf *",
        "cd ..; rm -rf *",
        "cd ~ || exit; rm -rf ./*",
        "bash -c 'rm -rf ~'",
        'sh -ec "rm -rf ~"',
        "bash -lc 'cd / && rm -rf *'",
        "bash -c \"bash -c 'rm -rf ~'\"",
        "env rm -rf ~",
        "env -i A=1 rm -rf ~",
        "FOO=1 rm -rf ~",
        "nohup nice -n 5 rm -rf ~",
        "timeout 5 rm -rf ~",
        "command rm -rf ~",
        "\\rm -rf ~",
        "r'm' -rf ~",
        '"rm" -rf ~',
        "/bin/rm -rf ~",
        "busybox rm -rf ~",
        "eval rm -rf ~",
        "eval 'rm -rf ~'",
        "echo ok; rm -rf ~",
        "echo ok && rm -rf ~",
        "echo ok || rm -rf ~",
        "echo ok | rm -rf ~",
        "echo ok & rm -rf ~",
        "echo ok\nrm -rf ~",
        "echo ok # note\nrm -rf ~",
        "echo $(rm -rf ~)",
        "echo `rm -rf ~`",
        'echo "$(rm -rf ~)"',
        "echo ${x:-$(rm -rf ~)}",
        "cat <(rm -rf ~)",
        "(rm -rf ~)",
        "{ rm -rf ~; }",
        "if true; then rm -rf ~; fi",
        "for f in a b; do rm -rf ~; done",
        "while true; do rm -rf ~; done",
        "! rm -rf ~",
        "time rm -rf ~",
        "sudo rm -rf ~",
        "sudo -u root rm -rf ~",
        "bash <<EOF\nrm -rf ~\nEOF",
        "cat <<EOF\n$(rm -rf ~)\nEOF",
        "find ~ -delete",
        "find / -name x -delete",
        "find ~ -exec rm -rf {} +",
        "find ~ -type f -exec rm {} \\;",
        "chmod -R 000 ~",
        "chown -R nobody /",
        "chmod -R 777 /etc",
        "dd if=/dev/zero of=/dev/sda",
        "mkfs.ext4 /dev/sda1",
        "shred /etc/passwd",
        "mv ~ /tmp/x",
        "rm -rf ~root",
        "rm -rf ~/project/../.ssh",
    ],
)
def test_T67_deleting_home_or_system_is_seen_in_any_dress(command: str) -> None:
    assert deletes(command) & {Scope.HOME, Scope.SYSTEM, Scope.SECRET}, run(command)


@pytest.mark.parametrize(
    "command", ["rm -rf build", "rm a b", "rm -rf ./*", "find . -name '*.pyc' -delete", "cd src && rm x", 'rm -rf "~"']
)
def test_deleting_in_the_workspace_stays_there(command: str) -> None:
    assert deletes(command) == {Scope.WORKSPACE}


@pytest.mark.parametrize(
    "command", ["rm -rf $DIR/", 'rm -rf "$X"', "rm -rf ~/$X", "rm -rf $(cat list)", "rm -rf {a,~}"]
)
def test_deleting_what_is_not_known_is_not_understood(command: str) -> None:
    found = run(command)
    assert not found.understood
    assert deletes(command) == {Scope.UNKNOWN}


@pytest.mark.parametrize(
    "command",
    [
        "ls",
        "ls -la src",
        "cat README.md",
        "head -n 20 a | tail -5",
        "grep -rn 'a; b' src",
        "rg -n TODO src",
        "wc -l a b",
        "pwd",
        "echo 'rm -rf ~'",
        'echo "a && b"',
        "echo a\\;b",
        "find . -name '*.py' | wc -l",
        "find . -name *.py",
        "git status --short",
        "git log --oneline -5",
        "git log --format='%h; %s'",
        "git diff HEAD~1 -- src/a.py",
        "git diff main..dev",
        "git show HEAD:src/a.py",
        "cat a 2>/dev/null",
        "cat a > /dev/null 2>&1",
        "cat < a",
        "cat <<EOF\nrm -rf ~\nEOF",
        "cat <<'EOF'\n$(rm -rf ~)\nEOF",
        "sort a | uniq -c | sort -rn | head",
        "cd src && ls && cat a.py",
        "sed -n 1,20p a.py",
        "test -f a && echo yes",
        "[ -d src ] || echo no",
        "diff a b",
        "ls *.md",
        "command -v python3",
        "cat .git/HEAD",
        "grep x <<< text",
        "ls # rm -rf ~",
    ],
)
def test_commands_that_only_read_the_workspace_are_contained(command: str) -> None:
    assert contained(command), run(command)


@pytest.mark.parametrize(
    "command",
    [
        "",
        "   ",
        "make",
        "python -c 'print(1)'",
        "python x.py",
        "./ls",
        "npm test",
        "curl https://x",
        "git push",
        "git -c core.pager=x log",
        "git -C /etc log",
        "git log --output=x",
        "git log --outp=x",
        "git diff --ext-diff",
        "git diff --no-index /etc/passwd a",
        "git diff /dev/null /etc/passwd",
        "git grep -Ovi x",
        "git config alias.x '!rm'",
        "git branch -D main",
        "git remote add x y",
        "git stash",
        "cat /etc/passwd",
        "cat ../other/x",
        "cat ~/notes",
        "ls ~",
        "ls /",
        "cd / && ls",
        "cd ~; cat x",
        "cd /etc; cd -; cat passwd",
        "true || cd sub && cat ../x",
        "false && cd sub && ls; cat ../x",
        "cat .env",
        "cat .e*",
        "cat .en?",
        "cat *",
        "cat */../../x",
        "cat {/etc/passwd,a}",
        "cat {'/etc/passwd',a}",
        "cat $FILE",
        "cat $'/etc/passwd'",
        "cat `echo x`",
        "cat <(ls)",
        "ls > out",
        "ls >> out",
        "ls >| out",
        "ls &> out",
        "ls >& out",
        "ls <> out",
        "ls 2> err",
        ": > a",
        "ls &",
        "(ls)",
        "{ ls; }",
        "ls() { rm x; }; ls",
        "function ls { rm x; }",
        "if true; then ls; fi",
        "PATH=. ls",
        "LD_PRELOAD=./x.so ls",
        "a[$(id)]=1 ls",
        "export PATH=.; ls",
        "hash -p ./x ls; ls",
        "alias ls=rm",
        "source x",
        ". ./x",
        "exec ls",
        "env",
        "env ls",
        "xargs cat",
        "find . -name x | xargs cat",
        "find . -exec cat {} +",
        "find . -fprint x",
        "find / -name x",
        "find .. -name x",
        "find *",
        "find . -name x -o -delet?",
        "sort -o a a",
        "sort --out=a a",
        "sort --compress-prog=./x a",
        "sort -rno a a",
        "sort *",
        "sort *.txt",
        "uniq a b",
        "uniq a*",
        "tree -o x",
        "rg --pre ./x y",
        "rg --pre=./x y",
        "rg --hidden KEY",
        "rg -uu KEY",
        "rg -z x",
        "rg x *",
        "rg --files /etc",
        "grep -f /etc/passwd x",
        "grep -f/etc/passwd x",
        "grep --file=/etc/shadow x",
        "grep -3ep /etc/passwd",
        "grep --regex p /etc/passwd",
        "grep -e root /etc/passwd",
        "grep root /etc/passwd",
        "wc --files0-from=list",
        "wc --files=list",
        "du --files0-from=list",
        "sed -i s/a/b/ x",
        "sed -n 's/a/b/w out' x",
        "sed -n 1e x",
        "sed s/a/b/ x",
        "awk 1 x",
        "test -v 'a[$(id)]'",
        "[ -v 'a[$(id)]' ]",
        "printf -v x y",
        "command ls",
        "command -V git reset",
        "file -C -m x",
        "less x",
        "cat 'unclosed",
        'cat "unclosed',
        "cat a\\",
        "cat a\x01b",
        "cat a\0",
        "ls\r",
        "LS",
        "l\u200bs",
        "~/bin/ls",
        "$CMD a",
        "l?",
        "cat <<EOF\n$(id)\nEOF",
        "cat <<EOF\nnot ended",
        "cat < ~/x",
        "cat /dev/tcp/h/80",
        "echo hi > /dev/tcp/h/80",
        "echo " + "x" * 60_000,
        "bash -c ls",
        "eval ls",
        "head -c 9 /dev/sda",
        "git",
        "git --exec-path=./x status",
        "strings @list",
        "pushd /; ls",
    ],
)
def test_everything_else_needs_a_decision(command: str) -> None:
    assert not contained(command), run(command)


def test_privilege_and_network_are_named() -> None:
    kinds = {i.kind for i in run("sudo apt-get install x").impacts}
    assert {Effect.PRIVILEGE, Effect.NETWORK} <= kinds
    for command in ("curl x", "wget x", "ssh h ls", "git push", "pip install x", "env curl x"):
        assert Effect.NETWORK in {i.kind for i in run(command).impacts}, command
    for command in ("su - x", "doas ls", "pkexec ls", "echo x | sudo tee /etc/x"):
        assert Effect.PRIVILEGE in {i.kind for i in run(command).impacts}, command


def test_R07_operators_inside_quotes_do_not_separate() -> None:
    assert run("git log --grep='a; b && c | d'").argv == (("git", "log", "--grep=a; b && c | d"),)
    assert run('echo "a;b" a\\&b; pwd').argv == (("echo", "a;b", "a&b"), ("pwd",))
    assert run("a\\\nb").argv == (("ab",),)


def test_argv_lists_every_command_nested_ones_too() -> None:
    assert run("ls | env rm x; bash -c 'pwd; date'").argv == (
        ("ls",),
        ("env", "rm", "x"),
        ("rm", "x"),
        ("bash", "-c", "pwd; date"),
        ("pwd",),
        ("date",),
    )


def test_targets_are_absolute_and_scopes_come_from_the_caller() -> None:
    asked: list[str] = []

    def scope_of(path: str) -> Scope:
        asked.append(path)
        return Scope.TEMP

    found = analyse("cat ./a/../b", "/w", "/h", scope_of)
    assert [(i.target, i.scope) for i in found.impacts if i.kind is Effect.READ] == [("/w/b", Scope.TEMP)]
    assert "/w/./a/../b" in asked


def test_a_path_whose_two_readings_differ_is_unknown() -> None:
    """`link/../x` is beside the link's target for the kernel, beside the link by its spelling."""

    def scope_of(path: str) -> Scope:
        return Scope.SYSTEM if "link" in path else Scope.WORKSPACE

    found = analyse("cat link/../x", "/w", "/h", scope_of)
    assert [i.scope for i in found.impacts if i.kind is Effect.READ] == [Scope.UNKNOWN]


def test_what_is_not_understood_is_said_and_marked() -> None:
    found = run("cat $X")
    assert not found.understood
    assert "$X" in found.reason
    assert found.impacts[-1].target.startswith(UNPARSED)
    assert found.impacts[-1].scope is Scope.UNKNOWN
    assert run(f"{UNPARSED}x").impacts[0].target != f"{UNPARSED}x"


@given(st.text(alphabet=st.sampled_from(list("ab /~.$(){}[]*?'\"`\\;|&<>\n#=!-$x0")), max_size=60))
@settings(max_examples=400, deadline=None)
def test_any_text_is_analysed_without_an_error(command: str) -> None:
    found = run(command)
    assert found.understood is not bool(found.reason)
    assert found.understood or found.impacts[-1].scope is Scope.UNKNOWN


@pytest.mark.parametrize(
    "piece",
    [
        "$(",
        "`",
        "${x:-$(",
        '"',
        "'",
        "(",
        "{a,",
        "<<E\n",
        "\\",
        ";",
        "a|",
        "~/",
        "*",
        "cd a;",
        "bash -c '",
        "1 ",
        "x",
        "$x",
    ],
)
def test_time_stays_bounded_on_hostile_text(piece: str) -> None:
    command = piece * (40_000 // len(piece))
    start = time.process_time()
    run(command)
    assert time.process_time() - start < 3.0


def test_deep_substitutions_do_not_exhaust_the_stack() -> None:
    assert not run("${`" * 2000 + "}" * 2000).understood
    assert not run("$(" * 3000 + ")" * 3000).understood
    assert not run("env " * 3000).understood


@pytest.mark.parametrize(
    ("path", "secret"),
    [
        ("/w/.env", True),
        ("/w/.env.production", True),
        ("/w/.env.example", False),
        ("/h/.ssh/id_rsa", True),
        ("/h/.ssh/config", True),
        ("/h/.ssh/id_rsa.pub", False),
        ("/w/id_ed25519", True),
        ("/w/certs/server.key", True),
        ("/w/tls.pem", True),
        ("/h/.aws/credentials", True),
        ("/etc/shadow", True),
        ("/proc/self/environ", True),
        ("/w/shadow", False),
        ("/w/environ", False),
        ("/w/secrets.yaml", True),
        ("/w/secrets.py", False),
        ("/w/keys.py", False),
        ("/w/environment.md", False),
        ("/w/monkey", False),
        ("/h/.npmrc", True),
    ],
)
def test_paths_that_name_secrets(path: str, secret: bool) -> None:
    assert looks_secret(path) is secret


def test_lexical_scopes() -> None:
    scope_of = lexical_scopes("/home/u/p", "/home/u")
    wanted = {
        "/home/u/p": Scope.WORKSPACE,
        "/home/u/p/a": Scope.WORKSPACE,
        "a": Scope.WORKSPACE,
        "../x": Scope.HOME,
        "/home/u/p2": Scope.HOME,
        "/home/u/p/.git/config": Scope.PROTECTED,
        "/home/u/.geode/geode.db": Scope.GEODE,
        "/tmp/x": Scope.TEMP,
        "/tmp2": Scope.SYSTEM,
        "/home/v": Scope.SYSTEM,
        "/": Scope.SYSTEM,
        "/home/u/p/../.ssh/id_rsa": Scope.SECRET,
    }
    assert {p: scope_of(p) for p in wanted} == wanted


# ---------------------------------------------------------------- options, redirections, writers


def reads(command: str) -> list[str]:
    return [i.target.removeprefix(f"{CWD}/") for i in run(command).impacts if i.kind is Effect.READ]


def writes(command: str) -> dict[str, Scope]:
    return {i.target.removeprefix(f"{CWD}/"): i.scope for i in run(command).impacts if i.kind is Effect.WRITE}


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        ("ls -la", []),
        ("ls -la src", ["src"]),
        ("head -n5 f", ["f"]),
        ("head -n 5 f", ["f"]),
        ("head -5 f", ["f"]),
        ("tail -c 20 f g", ["f", "g"]),
        ("grep -rn x f", ["f"]),
        ("grep -rn x", [CWD]),
        ("grep -A3 -B 2 -e x -i f", ["f"]),
        ("grep -f words f", ["words", "f"]),
        ("grep -fwords f", ["words", "f"]),
        ("grep --exclude-dir=.git --include '*.py' -r x src", ["src"]),
        ("cut -d, -f1 f", ["f"]),
        ("cut -d ',' -f 1-3 f", ["f"]),
        ("sort -t: -k2,2n f", ["f"]),
        ("wc -l -- -n", ["-n"]),
        ("rg -n -t py TODO src", ["src"]),
        ("rg --files", [CWD]),
        ("jq -r '.a' f", ["f"]),
        ("date -r f +%s", ["f"]),
        ("git log -n 5 main", []),
        ("git diff HEAD~1 -- src/a.py", ["src/a.py"]),
        ("git diff main..dev", []),
        ("tr a b", []),
        ("sleep 3", []),
    ],
)
def test_option_letters_and_their_values_are_not_taken_for_files(command: str, wanted: list[str]) -> None:
    assert sorted(reads(command)) == sorted(wanted)
    assert run(command).understood
    assert contained(command)


@pytest.mark.parametrize(
    "command",
    [
        "cat -q f",
        "ls --no-such f",
        "head -x5 f",
        "grep -R x f",
        "wc -n",
        "date -s tomorrow",
        "date 010100002030",
        "hostname other",
        "rg -g '*.env' KEY",
        "rg -g '.*' KEY",
        "rg --glob=* KEY",
        "jq 'env' f",
        "jq 'import \"/etc/x\" as $x; .' f",
        "find . -fprint0 x",
        "find . -unheard-of",
        "head -n",
    ],
)
def test_an_option_the_program_is_not_known_for_needs_a_decision(command: str) -> None:
    assert not contained(command), run(command)


@pytest.mark.parametrize(
    "command",
    "sleep 3|date +%F|date -u|seq 1 5|printf '%s' a|basename /etc/x .y|true|uname -a|id -u|python3 --version"
    "|git --version|tree -L 2|df -h|nproc|sha256sum a|join a b|column -t a|jq . a|cut -c1-3 a|comm -12 a b"
    "|stat -c %s a".split("|"),
)
def test_harmless_commands_run_without_a_question(command: str) -> None:
    assert contained(command), run(command)


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        ("ls > out", {"out": Scope.WORKSPACE}),
        ("ls >> out 2>&1", {"out": Scope.WORKSPACE}),
        ("ls 2> err > out", {"err": Scope.WORKSPACE, "out": Scope.WORKSPACE}),
        ("ls &> out", {"out": Scope.WORKSPACE}),
        ("ls 2>/dev/null", {}),
        ("echo x > .git/config", {".git/config": Scope.PROTECTED}),
        ("echo x > ~/x", {"/home/u/x": Scope.HOME}),
        ("echo x > /etc/x", {"/etc/x": Scope.SYSTEM}),
        ("echo x > .env", {".env": Scope.SECRET}),
        ("cd sub && ls > out", {"sub/out": Scope.WORKSPACE}),
        ("mkdir -p a/b c", {"a/b": Scope.WORKSPACE, "c": Scope.WORKSPACE}),
        ("touch -d yesterday a", {"a": Scope.WORKSPACE}),
        ("cat a | tee -a log", {"log": Scope.WORKSPACE}),
        ("cp a b", {"b": Scope.WORKSPACE}),
        ("cp a b c/", {"c/a": Scope.WORKSPACE, "c/b": Scope.WORKSPACE}),
        ("cp -t c a", {"c/a": Scope.WORKSPACE}),
        ("cp x/.mcp.json .", {".mcp.json": Scope.PROTECTED}),
        ("cp x/.git c", {"c": Scope.WORKSPACE, "c/.git": Scope.PROTECTED}),
        ("cp a ~", {"/home/u/a": Scope.HOME}),
        ("mv a b", {"a": Scope.WORKSPACE, "b": Scope.WORKSPACE}),
        ("mv a .git/hooks/", {"a": Scope.WORKSPACE, ".git/hooks/a": Scope.PROTECTED}),
        ("mkdir d && mv a d/", {"d": Scope.WORKSPACE, "a": Scope.WORKSPACE, "d/a": Scope.WORKSPACE}),
    ],
)
def test_known_commands_that_write_name_what_they_write(command: str, wanted: dict[str, Scope]) -> None:
    found = run(command)
    assert found.understood, found.reason
    assert writes(command) == wanted
    assert all(i.scope is Scope.SANDBOX for i in found.impacts if i.kind is Effect.EXECUTE)


@pytest.mark.parametrize(
    "command",
    [
        "make > out",
        "ls > $X",
        "ls > *.txt",
        "cp -r a b",
        "cp -a a b",
        "cp a* b/",
        "cp -l a b",
        "ln -s /etc e && cat e/passwd",
        "ln a b",
        "mv a* b/",
        "mv --backup a b",
        "mv d e && cat e/link",
        "mv d e; echo x > e/link",
        "cat e/link | mv d e",
        "touch *",
        "mkdir -m 777 a",
        "git log > out",
        "mkdir r && cd r && git status",
        "bash -c 'mv a b'",
        "tee $X",
    ],
)
def test_writing_where_the_names_do_not_tell_needs_a_decision(command: str) -> None:
    found = run(command)
    assert not found.understood or any(i.scope is Scope.UNKNOWN for i in found.impacts), found


def test_moving_the_home_or_a_secret_is_seen() -> None:
    assert deletes("mv ~ /tmp/x") == {Scope.HOME}
    assert any(i.scope is Scope.SECRET and i.kind is Effect.READ for i in run("mv .env notes.txt").impacts)
    assert any(i.scope is Scope.SECRET and i.kind is Effect.READ for i in run("cp .env notes.txt").impacts)
