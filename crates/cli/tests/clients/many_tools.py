"""Drives `toolgate mcp` with many tools by the official Python SDK of the first era, and prints what it saw as JSON.

usage: many_tools.py TOOLGATE
"""

import asyncio
import json
import os
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

server = StdioServerParameters(command=sys.argv[1], args=["mcp", "--wait", "1"], env=dict(os.environ))


async def main():
    heard = []

    async def note(message):
        heard.append(type(getattr(message, "root", message)).__name__)

    async with stdio_client(server) as (read, write):
        async with ClientSession(read, write, message_handler=note) as session:
            greeting = await session.initialize()
            names = lambda listed: sorted(tool.name for tool in listed.tools)
            before = names(await session.list_tools())
            found = await session.call_tool("search_tools", {"query": "read a file of the workspace"})
            loaded = await session.call_tool("load_tool", {"name": "fs.read"})
            await asyncio.sleep(0.5)
            after = names(await session.list_tools())
            direct = await session.call_tool("fs_read", {"path": "README.md"})
            around = await session.call_tool("call_tool", {"name": "fs_read", "arguments": {"path": "README.md"}})
            unloaded = await session.call_tool("call_tool", {"name": "fs.list", "arguments": {}})
            guide = await session.call_tool("load_tool_resource", {"name": "fs.read"})
            text = lambda result: result.content[0].text
            print(json.dumps({
                "instructions": greeting.instructions,
                "before": before,
                "found": text(found),
                "loaded": text(loaded),
                "heard": heard,
                "after": after,
                "direct": text(direct),
                "around": text(around),
                "around_tool": around.meta["toolgate/tool"],
                "unloaded": text(unloaded),
                "guide": text(guide),
            }))


asyncio.run(main())
