"""Drives `toolgate mcp` with the official Python SDK, of either era, and prints what it saw as JSON.

usage: client.py TOOLGATE legacy|auto|2026-07-28
"""

import asyncio
import json
import os
import subprocess
import sys

import mcp
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

toolgate, era = sys.argv[1:]
server = StdioServerParameters(command=toolgate, args=["mcp", "--wait", "1"], env=dict(os.environ))


def field(result, snake, camel):
    return getattr(result, snake) if hasattr(result, snake) else getattr(result, camel)


def seen(result):
    return {
        "error": bool(field(result, "is_error", "isError")),
        "text": result.content[0].text,
        "structured": field(result, "structured_content", "structuredContent"),
    }


async def drive(client):
    tools = await client.list_tools()
    names = sorted(tool.name for tool in tools.tools)
    read = seen(await client.call_tool("fs_read", {"path": "README.md"}))
    wrote = seen(await client.call_tool("fs_write", {"path": "made.txt", "content": "by a client\n"}))
    secret = seen(await client.call_tool("fs_read", {"path": ".env"}))
    clean = {"command": "rm", "args": ["-r", "build"], "profile": "mutate", "purpose": "clean"}
    pending = seen(await client.call_tool("shell", clean))
    approval = pending["structured"]["approval"]["id"]
    subprocess.run([toolgate, "approve", approval], check=True, capture_output=True)
    status = seen(await client.call_tool("call_status", {"call_id": pending["structured"]["call_id"]}))
    print(json.dumps({"names": names, "read": read, "wrote": wrote, "secret": secret, "pending": pending, "status": status}))


async def main():
    if hasattr(mcp, "Client"):
        async with mcp.Client(server, mode=era) as client:
            await drive(client)
    else:
        async with stdio_client(server) as (read, write):
            async with ClientSession(read, write) as session:
                await session.initialize()
                await drive(session)


asyncio.run(main())
