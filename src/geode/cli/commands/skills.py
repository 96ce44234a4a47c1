"""`geode skills`: list, show, add, remove, validate and search skills."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core.errors import UsageError
from .. import render
from ..invocation import Invocation
from ..parser import CommandParser, add_command, add_group, add_paging, words_of

if TYPE_CHECKING:
    from ...config.trust import TrustState
    from ...skills.install import Installed
    from ...skills.library import SkillEntry, SkillLibrary

__all__ = ["add_skill", "configure"]


def configure(parser: CommandParser) -> None:
    """Fill in `geode skills`."""
    group = add_group(parser)
    listing = add_command(group, "list", "every skill, and why one is not used", _list)
    listing.add_argument("--status", choices=("active", "shadowed", "untrusted", "invalid"), help="only these")
    add_paging(listing)
    show = add_command(group, "show", "everything about one skill", _show)
    show.add_argument("name")
    add = add_command(group, "add", "copy a skill's folder into the project", _add)
    add.add_argument("path", metavar="PATH", help="the skill's folder, or its SKILL.md")
    add.add_argument("--force", action="store_true", help="replace a skill of that name")
    add.add_argument("--user", action="store_true", help="for all your projects: into HOME/skills")
    remove = add_command(group, "remove", "delete a skill from the project", _remove)
    remove.add_argument("name")
    remove.add_argument("--user", action="store_true", help="from HOME/skills")
    validate = add_command(group, "validate", "check a skill's folder", _validate)
    validate.add_argument("path", metavar="PATH", help="the skill's folder, or its SKILL.md")
    validate.add_argument(
        "--strict", action="store_true", help="what breaks the Agent Skills specification is an error"
    )
    search = add_command(group, "search", "which skills fit these words", _search)
    search.add_argument("text", nargs="+", help="what you want to do")
    search.add_argument("--limit", type=int, default=10, choices=range(1, 101), metavar="N", help="at most N (1-100)")


def _library(run: Invocation) -> SkillLibrary:
    from ...mcp.skills import known_skills
    from ...skills.library import open_library

    servers = known_skills(run.project, run.home, trusted=run.trusted)
    return open_library(run.project, run.home, trusted=run.trusted, servers=servers)


# ---------------------------------------------------------------- list, show, search


def _list(run: Invocation) -> int:
    library = _library(run)
    entries = [e for e in library.entries() if run.args.status in (None, e.status)]
    page = render.page(entries, run.args.limit, run.args.cursor)
    document: dict[str, Any] = {
        "skills": [entry.to_json() for entry in page.items],
        "count": page.total,
        "summary": library.summary(),
        "next_cursor": page.next_cursor,
    }

    def people() -> None:
        rows = [
            [e.name, e.status, e.root.shown, e.reason or (e.skill.description if e.skill else "")] for e in page.items
        ]
        render.table(["name", "status", "from", "description, or why it is not used"], rows, empty="no skills")
        for entry in page.items:
            _print_findings([f.to_json() for f in entry.findings if f.level == "error"])
        render.note(library.summary())
        if page.next_cursor:
            render.note(f"{len(rows)} of {page.total}; go on with --cursor {page.next_cursor}")

    run.show(document, people)
    return 0


def _find(library: SkillLibrary, name: str) -> SkillEntry:
    import difflib

    entry = library.entry(name)
    if entry is None:
        near = difflib.get_close_matches(name, [e.name for e in library.entries()], 3)
        hint = f"did you mean {' or '.join(near)}?" if near else "see: geode skills list"
        raise UsageError(f"there is no skill {name!r}", fix=hint)
    return entry


def _show(run: Invocation) -> int:
    entry = _find(_library(run), run.args.name)
    skill = entry.skill
    document = entry.to_json()
    if skill is not None:
        document |= skill.model_dump(exclude={"frontmatter", "origin"})
        document["files"] = [{"name": f.name, "size": f.size, "sha256": f.sha256} for f in entry.files]

    def people() -> None:
        print(
            render.paint(render.plain(entry.name), "bold")
            + f"  {entry.status}"
            + (f": {render.plain(entry.reason)}" if entry.reason else "")
        )
        print(f"  folder   {render.plain(str(entry.folder))}")
        if skill is not None:
            facts = {
                "what": skill.description, "triggers": ", ".join(skill.triggers), "risk": skill.risk,
                "only tools": (", ".join(skill.tools) or "none") if skill.restricts else "",
                "pre-approves": ", ".join(skill.allowed_tools), "forbids": ", ".join(skill.denied_tools),
                "nodes": ", ".join(skill.nodes), "files": ", ".join(f.name for f in entry.files),
            }  # fmt: skip
            for key, value in facts.items():
                if value:
                    print(f"  {key:<12} {render.plain(value)}")
            print("\n" + render.plain(skill.body))
        _print_findings([f.to_json() for f in entry.findings])

    run.show(document, people)
    return 0


def _search(run: Invocation) -> int:
    from ...skills.search import search_skills

    text = words_of(run.args.text)
    if not text:
        raise UsageError("the text is empty", fix='geode skills search "make a report"')
    hits = search_skills(_library(run).registry.skills(), text, run.args.limit)
    document = {"query": text, "results": [hit.to_json() for hit in hits], "not_found": not hits}

    def people() -> None:
        rows = [[h.skill.name, f"{h.score:.2f}", ", ".join(h.triggers), h.skill.description] for h in hits]
        render.table(["name", "score", "triggered by", "description"], rows, empty="no skill fits")

    run.show(document, people)
    return 0


# ---------------------------------------------------------------- validate


def _validate(run: Invocation) -> int:
    from ...skills.findings import errors_of
    from ...skills.install import check_skill, skill_folder

    strict: bool = run.args.strict
    folder = skill_folder(_path(run, run.args.path))
    parsed = check_skill(folder)
    errors = errors_of(parsed.findings, strict=strict)
    rest = [f for f in parsed.findings if f.level != "error" and not (strict and f.strict)]
    document: dict[str, Any] = {
        "valid": not errors,
        "name": parsed.name,
        "conforms": not errors_of(parsed.findings, strict=True),
        "errors": [f.to_json() for f in errors],
        "warnings": [f.to_json() for f in rest],
    }

    def people() -> None:
        verdict = render.paint("valid", "green") if not errors else render.paint("not valid", "red")
        print(f"{render.plain(parsed.name)}: {verdict}")
        _print_findings(document["errors"])
        _print_findings(document["warnings"])

    run.show(document, people)
    return 0 if not errors else 1


def _print_findings(findings: Sequence[Mapping[str, Any]]) -> None:
    for finding in findings:
        place = ":".join(str(finding[key]) for key in ("file", "line", "column") if finding[key])
        print(render.plain(f"  {finding['level']}: {place}: {finding['problem']}"))
        if finding["fix"]:
            print(render.plain(f"      fix: {finding['fix']}"))


def _path(run: Invocation, text: str) -> Path:
    if not text.strip() or "\0" in text:
        raise UsageError("the path is empty or not a path", fix="name a folder that holds a SKILL.md")
    try:
        path = Path(text).expanduser()
    except RuntimeError as error:
        raise UsageError(f"{text!r} cannot be used: {error}", fix="give the whole path") from error
    return path if path.is_absolute() else Path.cwd() / path


# ---------------------------------------------------------------- add, remove


def add_skill(
    project: Path, home: Path, path: Path, *, force: bool = False, user: bool = False
) -> tuple[Installed, str]:
    """Copy a skill to where it is used; the second value says what keeps it from being used, or "".

    Adding is the person's own act: a project that was trusted, or brought nothing, stays so.

    Raises:
        UsageError, SkillInvalid, GeodeError: nothing was added.
    """
    from ...config.home import ensure_home
    from ...config.trust import TrustStore
    from ...skills.install import install_skill

    if user:
        return install_skill(path, ensure_home(home) / "skills", force=force, within=home), ""
    store = TrustStore(ensure_home(home))
    before = store.state(project)
    done = install_skill(path, project / ".claude" / "skills", force=force, within=project)
    return done, _keep_trust(store, project, before, done.folder)


def _keep_trust(store: Any, project: Path, before: TrustState, folder: Path) -> str:
    """Trust a project again of which only the person's own change is new."""
    after: TrustState = store.state(project)
    own = f".claude/skills/{folder.name}/"
    new = after.changed if before.state == "trusted" else after.files
    if before.state in ("trusted", "nothing") and all(name.startswith(own) for name in new):
        if after.state in ("changed", "untrusted"):
            store.trust(project, digest=after.digest)
        return ""
    return f"the project is {before.state}: its skills are used after: geode trust"


def _add(run: Invocation) -> int:
    done, waiting = add_skill(
        run.project, run.home, _path(run, run.args.path), force=run.args.force, user=run.args.user
    )
    skill = done.skill
    document: dict[str, Any] = {
        "name": skill.name,
        "path": str(done.folder),
        "replaced": done.replaced,
        "triggers": skill.triggers,
        "tools": skill.tools,
        "allowed_tools": skill.allowed_tools,
        "risk": skill.risk,
        "files": [f.name for f in done.files],
        "usable": not waiting,
        "reason": waiting,
        "warnings": [f.to_json() for f in done.findings],
    }

    def people() -> None:
        print(f"added {render.plain(skill.name)} to {render.plain(str(done.folder))}")
        print(f"  triggers      {render.plain(', '.join(skill.triggers)) or 'none'}")
        if skill.risk != "safe":
            print(f"  risk          {skill.risk}")
        if skill.allowed_tools:
            print(f"  pre-approves  {render.plain(', '.join(skill.allowed_tools))}")
        _print_findings([f for f in document["warnings"] if f["level"] != "notice"])
        if waiting:
            render.note(waiting)

    run.show(document, people)
    return 0


def _remove(run: Invocation) -> int:
    from ...config.trust import TrustStore
    from ...skills.install import remove_skill

    if run.args.user:
        folder, waiting = remove_skill(run.args.name, run.home / "skills", within=run.home), ""
    else:
        store = TrustStore(run.home)
        before = store.state(run.project)
        folder = remove_skill(run.args.name, run.project / ".claude" / "skills", within=run.project)
        waiting = _keep_trust(store, run.project, before, folder) if before.state == "trusted" else ""
    document = {"name": run.args.name, "path": str(folder), "removed": True}

    def people() -> None:
        print(f"removed {render.plain(str(folder))}")
        if waiting:
            render.note(waiting)

    run.show(document, people)
    return 0
