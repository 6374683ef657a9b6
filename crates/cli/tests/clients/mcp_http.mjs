// Drives the gate's `/mcp` with an official TypeScript SDK, and prints what it saw as JSON.
//
// usage: node mcp_http.mjs client|sdk URL TOKEN
const [which, url, token] = process.argv.slice(2);
const { Client, StreamableHTTPClientTransport } = which === 'client'
    ? await import('@modelcontextprotocol/client')
    : {
        ...(await import('@modelcontextprotocol/sdk/client/index.js')),
        ...(await import('@modelcontextprotocol/sdk/client/streamableHttp.js')),
    };

const connect = async (headers) => {
    const client = new Client({ name: 'test', version: '1' });
    await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
    return client;
};
const client = await connect({ Authorization: `Bearer ${token}` });
const seen = (result) => ({ error: !!result.isError, text: result.content[0].text, structured: result.structuredContent });
const call = async (name, args) => seen(await client.callTool({ name, arguments: args }));

const names = (await client.listTools()).tools.map((tool) => tool.name).sort();
const read = await call('fs_read', { path: 'README.md' });
const secret = await call('fs_read', { path: '.env' });
const about = (await client.readResource({ uri: 'toolgate://tool/fs.read' })).contents[0].text;
await client.close();
const stranger = await connect({ Authorization: 'Bearer nobody' }).then(() => 'let in', (error) => String(error));
console.log(JSON.stringify({ names, read, secret, about, stranger }));
