"""Drives the gate's `/mcp` with the official Python SDK, of either era, and prints what it saw as JSON.

usage: mcp_http.py TOOLGATE URL TOKEN legacy|2026-07-28

The token is of an agent in whose client somebody answers: once no, once yes.
"""

import asyncio
import json
import sys

import mcp
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

toolgate, url, token, era = sys.argv[1:]
headers = {"Authorization": f"Bearer {token}"}
asked = []
answers = [("accept", {"approve": False}), ("accept", {"approve": True})]


def field(result, snake, camel):
    return getattr(result, snake) if hasattr(result, snake) else getattr(result, camel)


def seen(result):
    return {
        "error": bool(field(result, "is_error", "isError")),
        "text": result.content[0].text,
        "structured": field(result, "structured_content", "structuredContent"),
        "links": [str(block.uri) for block in result.content if block.type == "resource_link"],
    }


async def answer(context, params):
    asked.append(params.message)
    action, content = answers.pop(0)
    kind = mcp.types.ElicitResult if hasattr(mcp, "types") else None
    if kind is None:
        import mcp_types

        kind = mcp_types.ElicitResult
    return kind(action=action, content=content)


async def page(client, uri):
    return (await client.read_resource(uri)).contents[0].text


async def drive(client):
    tools = await client.list_tools()
    names = sorted(tool.name for tool in tools.tools)
    read = seen(await client.call_tool("fs_read", {"path": "README.md"}))
    secret = seen(await client.call_tool("fs_read", {"path": ".env"}))
    resources = [str(resource.uri) for resource in (await client.list_resources()).resources]
    about = await page(client, "toolgate://tool/fs.read")
    long = seen(await client.call_tool("shell", {"command": "seq", "args": ["20000"]}))
    whole = await page(client, long["links"][0])
    clean = {"command": "rm", "args": ["-r", "build"], "profile": "mutate", "purpose": "clean"}
    refused = seen(await client.call_tool("shell", clean))
    done = seen(await client.call_tool("shell", clean))
    print(json.dumps({
        "names": names, "read": read, "secret": secret, "resources": resources, "about": about,
        "long": long["structured"]["status"], "whole": whole[-12:], "refused": refused, "done": done, "asked": asked,
    }))


async def main():
    if hasattr(mcp, "Client"):
        import httpx2

        async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
            transport = streamable_http_client(url, http_client=http)
            async with mcp.Client(transport, mode=era, elicitation_callback=answer) as client:
                await drive(client)
    else:
        import httpx

        async with httpx.AsyncClient(headers=headers, timeout=60) as http:
            async with streamable_http_client(url, http_client=http) as (read, write, _):
                async with ClientSession(read, write, elicitation_callback=answer) as session:
                    await session.initialize()
                    await drive(session)


asyncio.run(main())
