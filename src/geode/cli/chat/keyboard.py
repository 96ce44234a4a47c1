"""The prompt of the chat: history, completion of slash commands, keys."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import FileHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import Output
from prompt_toolkit.styles import Style

__all__ = ["Keyboard", "PrivateHistory"]

_STYLE = Style.from_dict(
    {
        "prompt": "bold ansicyan",
        "status": "ansibrightblack",
        "completion-menu.completion": "noreverse",
        "completion-menu.meta.completion": "noreverse ansibrightblack",
    }
)


class PrivateHistory(FileHistory):
    """What was typed, in a file that only this user reads; secrets are removed before it is written.

    Args:
        path: made with mode 0600.
        redact: removes secrets from a text.
    """

    def __init__(self, path: Path, redact: Callable[[str], str]) -> None:
        os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600))
        path.chmod(0o600)
        self._redact = redact
        super().__init__(str(path))

    def store_string(self, string: str) -> None:
        super().store_string(self._redact(string))


class SlashCompleter(Completer):
    """Names of slash commands and skills with what they do, at the start of a line."""

    def __init__(self, commands: Callable[[], Mapping[str, str]]) -> None:
        self._commands = commands

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        text = document.text_before_cursor
        if not text.startswith("/") or " " in text or "\n" in text:
            return
        for name, line in self._commands().items():
            if f"/{name}".startswith(text):
                yield Completion(f"/{name}", start_position=-len(text), display_meta=line)


class Keyboard:
    """Reads what the person says.

    Args:
        history: file of what was typed.
        redact: removes secrets from it.
        commands: slash command -> what it does, as it is now.
        status: stands at the right of the prompt.
        input, output: where keys come from and the prompt is painted; None: the terminal.
    """

    def __init__(
        self,
        history: Path,
        *,
        redact: Callable[[str], str],
        commands: Callable[[], Mapping[str, str]],
        status: Callable[[], str],
        input: Input | None = None,
        output: Output | None = None,
    ) -> None:
        self._status = status
        self._session: PromptSession[str] = PromptSession(
            history=PrivateHistory(history, redact),
            completer=SlashCompleter(commands),
            complete_while_typing=True,
            key_bindings=_keys(),
            style=_STYLE,
            rprompt=lambda: FormattedText([("class:status", self._status())]),
            prompt_continuation=lambda width, _number, _soft: " " * width,
            reserve_space_for_menu=5,
            input=input,
            output=output,
        )

    async def read(self) -> str:
        """One message; pasted lines stay lines.

        Raises:
            KeyboardInterrupt: Ctrl-C.
            EOFError: Ctrl-D on an empty line.
        """
        return await self._session.prompt_async(FormattedText([("class:prompt", "> ")]), handle_sigint=False)

    def interrupt(self) -> None:
        """As Ctrl-C at the prompt, for a signal that came from outside."""
        if self._session.app.is_running:
            self._session.app.exit(exception=KeyboardInterrupt())


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("escape", "enter")
    def new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return keys
