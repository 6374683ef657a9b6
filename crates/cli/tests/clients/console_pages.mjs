// Every page of the console: in light, dark and at phone width, by axe and by eye; and what can be pressed on each.
//
// usage: node console_pages.mjs looks|acts
import { createServer } from 'node:http';
import { appendFileSync } from 'node:fs';
import { Eyes, Gate, PAGES, cardOf, pause, until } from './console.mjs';

/** Somewhere to go to: it answers, and leads on to where nobody may go. */
const server = createServer((request, response) => {
    if (request.url === '/elsewhere') response.writeHead(302, { Location: 'http://127.0.0.1:9/' }).end();
    else response.end('x'.repeat(40_000));
});
await new Promise((done) => server.listen(0, '127.0.0.1', done));
const there = `127.0.0.1:${server.address().port}`;
appendFileSync(`${process.env.TOOLGATE_HOME}/toolgate.yaml`, `egress: { private: [127.0.0.1], allow: ["${there}"] }\n`);

/** Some work, so that there is something to see. */
async function work(gate) {
    await gate.call('http.request', { url: `http://${there}/data` }, { purpose: 'fetch the data' });
    await gate.call('http.request', { url: `http://${there}/elsewhere` }, { purpose: 'fetch the rest' });
    const done = await gate.call('shell', { command: 'ls', args: ['-la'], profile: 'inspect' }, { purpose: 'see what there is', task: 'release-42' });
    await gate.call('fs.read', { path: 'README.md' }, { task: 'release-42' });
    await gate.call('fs.read', { path: '.env' });
    await gate.call('fs.read', { path: '../secret' });
    await gate.call('fs.list', { path: '.' });
    await gate.call('fs.mkdir', { path: 'deploy' });
    const dirty = await gate.call('shell', { command: 'printf', args: ['key AKIA%s \\033[31mred\\033[0m', 'Z7QW3MNBV5XCLKJ2'], profile: 'inspect' }, { purpose: 'print a key' });
    await gate.call('shell', { command: 'rm', args: ['-r', 'build', 'two words', ''], profile: 'mutate', purpose: 'make room for the release' }, { task: 'release-42' });
    await gate.call('fs.edit', { path: 'main.rs', old: 'fn main() {\n    let limit = 10;\n    println!("{limit}");\n}', new: 'fn main() {\n    let limit = 20;\n    println!("\u202e{limit}\u200b");\n}' }, { purpose: 'raise the limit, as asked' });
    await gate.call('http.request', { url: 'https://api.example.com/v1/releases', method: 'POST', body: '{"version":"1.4.0"}' }, { task: 'release-42', purpose: 'announce the release' });
    return { done, dirty };
}

const LOOKS = [{ name: 'light' }, { name: 'dark', dark: true }, { name: 'phone', phone: true }, { name: 'phone-dark', phone: true, dark: true }];

/** Each page, each way. What axe finds, what is wider than the page, and what went wrong. */
async function looks(gate, eyes) {
    const { done } = await work(gate);
    const found = [];
    const places = [...PAGES, `call/${done.call_id}`, 'tools/shell', 'agents/default'];
    for (const look of LOOKS) {
        const page = await eyes.look(gate, { ...look, link: await gate.linkFor(gate.operator) });
        for (const place of places) {
            await eyes.go(page, place);
            if (place === 'approvals') await page.locator('.card .digest .hash').first().waitFor();
            else await page.locator('.place > *').first().waitFor();
            await pause(500);
            const name = place.replace(`/${done.call_id}`, '').replace('/', '-');
            // Pictures at phone width are of the light one alone.
            if (look.name !== 'phone-dark') await eyes.picture(page, `${name}-${look.name}`);
            for (const violation of await eyes.check(page)) found.push(`${look.name} ${place}: ${violation}`);
            const wider = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
            if (wider > 0) found.push(`${look.name} ${place}: ${wider} pixels wider than the screen`);
        }
        if (look.name === 'light') {
            await eyes.go(page, 'approvals');
            await page.keyboard.press('?');
            for (const violation of await eyes.check(page)) found.push(`help: ${violation}`);
            await page.keyboard.press('Escape');
        }
        await page.getByRole('button', { name: 'Sign out' }).click();
        await page.getByText('You are signed out').waitFor();
        for (const violation of await eyes.check(page)) found.push(`${look.name} signed out: ${violation}`);
        await page.goto(`${gate.url}/sign-in`);
        await page.getByRole('heading').first().waitFor();
        if (look.name !== 'phone-dark') await eyes.picture(page, `sign-in-${look.name}`);
        for (const violation of await eyes.check(page)) found.push(`${look.name} sign-in: ${violation}`);
        await page.context().close();
    }
    return { found };
}

/** What each page is for, done once. */
async function acts(gate, eyes) {
    const { done, dirty } = await work(gate);
    const page = await eyes.look(gate);
    const seen = {};
    const other = page.locator('#other');

    // By keys alone: live, its rows, a story.
    await page.keyboard.press('g');
    await page.keyboard.press('l');
    await page.locator('.calls-table tbody tr').first().waitFor();
    seen.rows = await page.locator('.calls-table tbody tr').count();
    await page.getByLabel('Status').selectOption('refused');
    seen.refused = await page.locator('.calls-table tbody tr').count();
    await page.getByLabel('Status').selectOption('');
    await gate.call('fs.stat', { path: 'README.md' });
    await page.getByRole('link', { name: /^fs\.stat/ }).waitFor();
    await page.locator('#page h1:visible').focus();
    await page.keyboard.press('j');
    await page.keyboard.press('Enter');
    await page.locator('.timeline li').first().waitFor();
    seen.byKeys = await page.locator('#other h1').innerText();

    await eyes.go(page, `call/${done.call_id}`, '.timeline li');
    seen.timeline = await page.locator('.timeline .hop-what').allInnerTexts();
    await page.getByRole('button', { name: 'Verify', exact: true }).click();
    await page.locator('.proof').nth(1).waitFor();
    seen.proofs = await page.locator('.proof').allInnerTexts();
    await eyes.go(page, `call/${dirty.call_id}`, '.cleaned');
    seen.cleaned = await page.locator('.cleaned').innerText();
    seen.output = await page.getByLabel('Output', { exact: true }).innerText();
    await page.getByRole('button', { name: /^Open it/ }).click();
    await page.getByLabel('What the tool gave').waitFor();
    seen.raw = await page.getByLabel('What the tool gave').innerText();
    const entries = (await gate.ask('GET', '/v1/ledger?limit=5')).body.entries;
    seen.read = entries.some(({ kind, body }) => kind === 'call.read' && body.call === dirty.call_id && body.by === 'me');

    await eyes.go(page, 'tools', '.table');
    await page.getByLabel('Find').fill('fs.ed');
    await page.getByRole('link', { name: 'fs.edit' }).click();
    await page.locator('.versions li').first().waitFor();
    seen.tool = await other.innerText();
    await eyes.go(page, 'agents/default', '.facts');
    seen.agent = await other.innerText();

    // Somebody new comes in by the link that is told once, and is removed again.
    await eyes.go(page, 'people', 'form');
    await page.getByLabel('Name').fill('second');
    await page.getByLabel('Role').selectOption('approver');
    await page.getByRole('button', { name: 'Add', exact: true }).click();
    await page.locator('.told-once').waitFor();
    const link = await page.locator('.told-once code').first().innerText();
    const theirs = await eyes.look(gate, { link });
    await until('they are in', async () => (await theirs.locator('#me').innerText()) === 'second, approver');
    await theirs.context().close();
    seen.people = await other.locator('.table').innerText();
    await page.getByRole('button', { name: 'Remove second' }).click();
    await page.getByRole('button', { name: 'Remove for good second' }).click();
    await until('they are removed', async () => !(await other.innerText()).includes('Remove'));
    seen.removed = (await gate.ask('GET', '/v1/operators')).body.operators;

    await eyes.go(page, 'policy', 'form');
    await page.getByRole('button', { name: 'Explain' }).click();
    await page.locator('.answer .badge').first().waitFor();
    seen.explained = await page.locator('.answer .verdict').first().innerText();
    await page.getByRole('button', { name: 'Try it on past calls' }).click();
    await until('simulated', async () => (await page.locator('.answer').nth(1).innerText()).includes('would be different'));
    seen.simulated = await page.locator('.answer').nth(1).innerText();
    await eyes.go(page, 'egress', '#other [role=status]');
    seen.egress = await other.innerText();

    await eyes.go(page, 'ledger', '.entries');
    await page.getByRole('button', { name: 'Verify all of it' }).click();
    await page.locator('.badge', { hasText: 'verified' }).waitFor();
    seen.ledger = await other.innerText();
    await page.locator('.entries summary').first().click();
    await page.locator('.entry-body').first().waitFor();
    await eyes.go(page, 'overview', '.tile');
    seen.overview = await page.locator('.tiles').innerText();

    // Everything that is pressed can be reached by keys, and where the keys are is seen.
    await eyes.go(page, 'approvals');
    await page.locator('.card .digest .hash').first().waitFor();
    seen.order = await page.locator('#queue .card .tool').allInnerTexts();
    const edit = page.locator('#queue .card', { has: page.locator('.tool', { hasText: 'fs.edit' }) });
    await edit.scrollIntoViewIfNeeded();
    await edit.locator('.diff li').first().waitFor();
    seen.diff = await edit.locator('.diff li').evaluateAll((lines) => lines.map((line) => `${line.dataset.kind}: ${line.querySelector('.line').textContent}`));
    await page.locator('#approvals-title').focus();
    await page.keyboard.press('j');
    seen.focused = await page.evaluate(() => document.activeElement.querySelector('.tool').textContent);
    seen.ring = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
    return seen;
}

const gate = await new Gate().start();
const eyes = await Eyes.open();
try {
    const seen = await { looks, acts }[process.argv[2]](gate, eyes);
    console.log(JSON.stringify({ ...seen, problems: eyes.problems }));
} finally {
    await eyes.browser.close();
    await gate.stop();
    server.close();
}
