// Drives `toolgate mcp` with an official TypeScript SDK, and approves the waiting call on the page, in a real browser.
//
// usage: node client.mjs TOOLGATE client|sdk SIGN_IN_URL CHROMIUM
import { chromium } from 'playwright-core';

const [toolgate, which, signIn, browserPath] = process.argv.slice(2);
const { Client } = which === 'client'
    ? await import('@modelcontextprotocol/client')
    : await import('@modelcontextprotocol/sdk/client/index.js');
const { StdioClientTransport } = which === 'client'
    ? await import('@modelcontextprotocol/client/stdio')
    : await import('@modelcontextprotocol/sdk/client/stdio.js');

const client = new Client({ name: 'test', version: '1' });
const transport = new StdioClientTransport({ command: toolgate, args: ['mcp', '--wait', '1'], env: process.env });
await client.connect(transport);

const seen = (result) => ({ error: !!result.isError, text: result.content[0].text, structured: result.structuredContent });
const call = async (name, args) => seen(await client.callTool({ name, arguments: args }));

const names = (await client.listTools()).tools.map((tool) => tool.name).sort();
const read = await call('fs_read', { path: 'README.md' });
const clean = { command: 'rm', args: ['-r', 'build'], profile: 'mutate', purpose: 'clean' };
const pending = await call('shell', clean);

const browser = await chromium.launch({ executablePath: browserPath, args: ['--no-sandbox', '--disable-gpu', '--disable-quic'] });
const page = await browser.newPage();
const problems = [];
page.on('pageerror', (error) => problems.push(String(error)));
page.on('console', (message) => message.type() === 'error' && problems.push(message.text()));
await page.goto(signIn);
const card = page.locator('#queue > *', { hasText: `id ${pending.structured.approval.id.slice(0, 8)}` });
await card.waitFor();
const shown = await card.innerText();
await card.getByRole('button', { name: /^Approve/ }).click();
await card.getByText('Approved, once.').waitFor();
const address = page.url();
await browser.close();

const again = await call('shell', clean);
await client.close();
console.log(JSON.stringify({ names, read, pending, shown, address, problems, again }));
