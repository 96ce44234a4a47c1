"""Your own policy, your own approver, and everything that happens as it happens.

The agent wants three things: a harmless look, a shell command that needs a person, and a tool
that this program forbids. The approver below is the person; yours may ask in a chat or a form.

    python examples/library/own_rules.py
"""

import asyncio

from geode import (
    ApprovalAnswer,
    ApprovalRequest,
    Effect,
    GeodeRuntime,
    Limits,
    ScriptedModel,
    ToolContext,
    ToolPolicy,
    tool,
)
from geode.core.events import CallFinished, Event
from geode.models.scripted import call, turn


@tool(effects=[Effect.COMMUNICATE])
async def send_invoice(context: ToolContext, customer: str, euros: float) -> str:
    """Send an invoice to a customer.

    Args:
        customer: who gets it.
        euros: the amount, more than 0.
    """
    context.progress(f"sending to {customer}", None)
    return f"sent {euros:.2f} EUR to {customer}"


@tool(effects=[Effect.COMMUNICATE])
def send_reminder(customer: str) -> str:
    """Remind a customer of an open invoice."""
    return f"reminded {customer}"


class UpToHundred:
    """Allows invoices of up to 100 euros; says no to everything else that policy asks about."""

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        """The answer of this program's owner to exactly this call."""
        small = request.call.tool == "send_invoice" and request.call.arguments["euros"] <= 100
        return ApprovalAnswer(approved=small, by="owner", reason="" if small else "more than 100 euros")


def show(event: Event) -> None:
    """One line for every finished call."""
    if isinstance(event, CallFinished):
        print(f"{event.result.status.value:7} {event.call.tool}: {event.result.text.splitlines()[0]}")


async def main() -> None:
    """Run one task with three calls."""
    model = ScriptedModel([
        turn(calls=[
            call("send_invoice", customer="Ada", euros=80),
            call("send_invoice", customer="Bob", euros=800),
            call("send_reminder", customer="Cleo"),
        ]),
        "Ada has her invoice. Bob's is too high for me, and I may not remind Cleo.",
    ])  # fmt: skip
    tools = [send_invoice, send_reminder]
    async with GeodeRuntime.create(tools=tools, approver=UpToHundred(), servers=False) as runtime:
        runtime.policy.chain.add_policy(ToolPolicy("no reminders", mode="*", denied_tools=["send_reminder"]))
        runtime.subscribe(show)
        agent = await runtime.agent(model, limits=Limits(turns=5, cost_usd=0.50, seconds=60))
        outcome = await agent.run("send the invoices, remind Cleo")
        print(f"{outcome.status}: {outcome.answer}")
        print(f"go on later: runtime.agent(model, session={outcome.session!r})")


if __name__ == "__main__":
    asyncio.run(main())
