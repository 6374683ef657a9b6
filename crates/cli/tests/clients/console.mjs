// Drives the console in a real browser, against a gate that it starts itself.
//
// usage: node console.mjs SCENARIO
// It needs TOOLGATE (the binary), CHROMIUM, and the environment of a gate; it prints what it saw as JSON.
import { spawn, spawnSync } from 'node:child_process';
import { createInterface } from 'node:readline';
import { createRequire } from 'node:module';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { chromium } from 'playwright-core';

const { TOOLGATE, CHROMIUM, ASSETS, PICTURES } = process.env;
const require = createRequire(import.meta.url);
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

export const PAGES = ['approvals', 'live', 'overview', 'tools', 'agents', 'people', 'policy', 'egress', 'ledger'];

export const pause = (ms) => new Promise((done) => setTimeout(done, ms));

export function toolgate(...words) {
    const ran = spawnSync(TOOLGATE, words, { encoding: 'utf8' });
    if (ran.status !== 0) throw new Error(`${words.join(' ')}: ${ran.status} ${ran.stderr}`);
    return ran.stdout.trim();
}

/** A gate with its page, and whoever talks to it. */
export class Gate {
    async start(listen = '127.0.0.1:0') {
        this.child = spawn(TOOLGATE, ['up', '--listen', listen], { stdio: ['ignore', 'pipe', 'inherit'] });
        for await (const line of createInterface({ input: this.child.stdout })) {
            const link = line.split(/\s+/).find((word) => word.includes('/sign-in?code='));
            if (link) {
                this.signIn = link;
                this.url = new URL(link).origin;
                break;
            }
        }
        this.agent ??= toolgate('agents', 'token', 'default').split('\n').at(-1).trim();
        this.operator ??= readFileSync(`${process.env.TOOLGATE_HOME}/operator.key`, 'utf8').trim();
        return this;
    }

    async stop() {
        const gone = new Promise((done) => this.child.once('exit', done));
        this.child.kill('SIGTERM');
        await gone;
    }

    async ask(method, path, body, token = this.operator) {
        const headers = { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' };
        const response = await fetch(this.url + path, { method, headers, body: body && JSON.stringify(body) });
        const text = await response.text();
        return { status: response.status, body: text && JSON.parse(text) };
    }

    /** A call of the agent's that does not wait. */
    async call(tool, args, more = {}) {
        return (await this.ask('POST', '/v1/calls', { tool, arguments: args, wait_seconds: 0, ...more }, this.agent)).body;
    }

    async outcome(id) {
        return (await this.ask('GET', `/v1/calls/${id}?wait_seconds=20`, undefined, this.agent)).body;
    }

    /** A link by which somebody else signs in. */
    async linkFor(credential) {
        return (await this.ask('POST', '/v1/sign-in-links', undefined, credential)).body.sign_in_url;
    }
}

/** A browser that notes everything that goes wrong, and every request that leaves for somebody else. */
export class Eyes {
    static async open() {
        const args = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking'];
        const eyes = new Eyes();
        eyes.browser = await chromium.launch({ executablePath: CHROMIUM, args });
        eyes.problems = [];
        return eyes;
    }

    async look(gate, { link = gate.signIn, dark = false, phone = false, size, expects = /^$/ } = {}) {
        const viewport = size ?? (phone ? { width: 390, height: 844 } : { width: 1180, height: 1000 });
        const context = await this.browser.newContext({ colorScheme: dark ? 'dark' : 'light', viewport, reducedMotion: 'reduce' });
        const page = await context.newPage();
        // The machine does other things, too.
        page.setDefaultTimeout(90_000);
        const note = (what) => expects.test(what) || this.problems.push(what);
        page.on('pageerror', (error) => note(String(error.stack ?? error)));
        page.on('console', (message) => ['error', 'warning'].includes(message.type()) && note(`${message.text()} ${message.location().url}`));
        page.on('request', (request) => request.url().startsWith(`${gate.url}/`) || note(`left for ${request.url()}`));
        page.on('dialog', (dialog) => note(`dialog ${dialog.message()}`) && dialog.dismiss());
        // While somebody works on the page, its files are taken from where they are edited.
        if (ASSETS) {
            await page.route('**/assets/*', (route) => route.fulfill({ path: `${ASSETS}/${new URL(route.request().url()).pathname.split('/').at(-1)}` }));
            await page.route(/\/(#.*)?$/, (route) => route.fulfill({ path: `${ASSETS}/console.html` }));
        }
        await page.goto(link);
        // What a redirect leads to cannot be replaced.
        if (ASSETS) this.problems.length = 0, await page.goto(`${gate.url}/`);
        await page.locator('#live[data-state=live]').waitFor();
        return page;
    }

    async go(page, hash, settled) {
        await page.evaluate((to) => { location.hash = `#/${to}`; }, hash);
        await page.locator(`${settled ?? '#page h1'}:visible`).first().waitFor();
        await pause(300);
    }

    /** What axe has to say of a page. */
    async check(page) {
        await page.evaluate(axe);
        const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
        return violations.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => node.target.join(' ')).join(' | ')}`);
    }

    async picture(page, name) {
        if (!PICTURES) return;
        mkdirSync(PICTURES, { recursive: true });
        writeFileSync(`${PICTURES}/${name}.png`, await page.screenshot());
    }
}

export const cardOf = (page, approval) => page.locator('#queue > .card', { hasText: `id ${approval.slice(0, 8)}` });

/** Waits until something is so. */
export async function until(what, so, patience = 20000) {
    for (const end = Date.now() + patience; Date.now() < end; await pause(100)) {
        const value = await so();
        if (value) return value;
    }
    throw new Error(`never: ${what}`);
}
