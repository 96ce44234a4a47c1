"""Ten lines: an agent with a tool and a policy of your own. A script plays the model, so no account is needed.

python examples/library/ten_lines.py
"""

import asyncio

from geode import Effect, GeodeRuntime, ScriptedModel, ToolPolicy, tool
from geode.models.scripted import call


@tool(effects=[Effect.READ])
def stock(item: str) -> int:
    """How many of an item are in stock."""
    return {"apples": 12, "pears": 3}.get(item, 0)


async def main() -> None:
    """Run one task."""
    model = ScriptedModel([[call("stock", item="apples"), call("stock", item="pears")], "12 apples and 3 pears."])
    async with GeodeRuntime.create(tools=[stock]) as runtime:
        runtime.policy.chain.add_policy(ToolPolicy("stock only", mode="*", allowed_tools=["stock", "tool_search"]))
        agent = await runtime.agent(model)
        print((await agent.run("what do we have?")).answer)


if __name__ == "__main__":
    asyncio.run(main())
