// What people do in the console: look, approve, deny, two of them, too late, after a restart, and what is hostile.
//
// usage: node console_acts.mjs SCENARIO
import { Eyes, Gate, cardOf, pause, toolgate, until } from './console.mjs';

const CLEAN = { command: 'rm', args: ['-r', 'build'], profile: 'mutate', purpose: 'clean' };

/** What the card shows as exact arguments, put together again without any code of the page. */
const takenBack = (card) => card.locator('pre.arguments').evaluate((box) => {
    let text = '';
    for (const node of box.childNodes) text += node.nodeType === Node.TEXT_NODE ? node.data : node.dataset.escape;
    return text;
});

/** RFC 8785, for what tests need of it. */
function canonical(value) {
    if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
    if (value === null || typeof value !== 'object') return JSON.stringify(value);
    return `{${Object.keys(value).sort().map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`).join(',')}}`;
}

const ready = (card) => card.locator('button.approve:enabled').waitFor();

async function shown(card) {
    await ready(card);
    return {
        canonical: canonical(JSON.parse(await takenBack(card))),
        digest: (await card.locator('.digest .hash').getAttribute('title')).split(' ')[0],
        text: await card.innerText(),
    };
}

const scenarios = {
    /** A call is approved by keys; what was shown is what ran. The same question of two tasks is one. */
    async approve(gate, eyes) {
        const page = await eyes.look(gate);
        await page.getByText('Nothing waits for you').waitFor();
        const call = await gate.call('shell', CLEAN, { task: 'one' });
        const card = cardOf(page, call.approval.id);
        await card.waitFor();
        const again = await gate.call('shell', CLEAN, { task: 'two' });
        await card.getByText('asked 2 times').waitFor();
        const seen = await shown(card);
        const bound = (await gate.ask('GET', `/v1/approvals/${call.approval.id}`)).body.arguments_digest;
        const title = await page.title();
        await pause(700);
        await page.keyboard.press('j');
        await page.keyboard.press('a');
        await card.getByText('and 1 more of the same').waitFor();
        const outcomes = [await gate.outcome(call.call_id), await gate.outcome(again.call_id)].map((each) => each.status);
        const ran = (await gate.ask('POST', `/v1/calls/${call.call_id}/reading`)).body.exact_arguments;
        await page.getByText('Nothing waits for you').waitFor();
        return { seen, bound, title, outcomes, ran, address: page.url() };
    },

    /** What is in the arguments and would not be seen is seen, and is still what the yes is bound to. */
    async hidden(gate, eyes) {
        const page = await eyes.look(gate);
        const args = { command: 'echo', args: ['a\u202eb', 'zero\u200b\u200bwidth', '\u{e0068}\u{e0069}', '⟨U+200B⟩', '\\u200b', 'no\u00a0break', '\u001b[31mred', 'del\u007f', '"q"', ''], profile: 'mutate' };
        const call = await gate.call('shell', args);
        const card = cardOf(page, call.approval.id);
        const seen = await shown(card);
        const marks = await card.locator('pre.arguments mark').allInnerTexts();
        const bound = (await gate.ask('GET', `/v1/approvals/${call.approval.id}`)).body.arguments_digest;
        await pause(700);
        await card.getByRole('button', { name: /^Approve/ }).click();
        await card.getByText('Approved, once.').waitFor();
        await gate.outcome(call.call_id);
        return { seen, bound, marks, meant: canonical(args) };
    },

    /** A no, with a reason that the agent reads. */
    async deny(gate, eyes) {
        const page = await eyes.look(gate);
        const call = await gate.call('shell', CLEAN);
        const card = cardOf(page, call.approval.id);
        await card.waitFor();
        await pause(700);
        await page.keyboard.press('j');
        await page.keyboard.press('d');
        await card.locator('.reason input:focus').waitFor();
        await page.keyboard.type('not today');
        await page.keyboard.press('Enter');
        await card.getByText('Denied.').waitFor();
        return { outcome: await gate.outcome(call.call_id) };
    },

    /** Approved for the task, which covers the next call; and taken back, which does not. */
    async scope(gate, eyes) {
        const page = await eyes.look(gate);
        // It changes no file that it names, which would end the yes.
        const touch = { command: 'echo', args: ['hi'], profile: 'mutate' };
        const call = await gate.call('shell', touch, { task: 'release' });
        const card = cardOf(page, call.approval.id);
        await ready(card);
        await card.getByText('this task', { exact: true }).click();
        await card.locator('.until select').selectOption('15');
        const covers = await card.locator('.covers').innerText();
        await pause(700);
        await card.getByRole('button', { name: 'Approve for this task' }).click();
        await card.getByText('Approved, for this task.').waitFor();
        await gate.outcome(call.call_id);
        const covered = await gate.call('shell', touch, { task: 'release', wait_seconds: 20 });
        await page.getByRole('button', { name: /^Revoke/ }).click();
        await page.getByText('Approved for longer').waitFor({ state: 'hidden' });
        const after = await gate.call('shell', touch, { task: 'release' });
        return { covers, covered: covered.status, after: after.status };
    },

    /** Two people. The first sees that another is needed, the second sees who was first. */
    async two(gate, eyes) {
        const credentials = ['ann', 'bob'].map((name) => JSON.parse(toolgate('operators', 'add', name, '--role', 'approver', '--json')).credential);
        const [ann, bob] = [await eyes.look(gate, { link: await gate.linkFor(credentials[0]) }), await eyes.look(gate, { link: await gate.linkFor(credentials[1]) })];
        const call = await gate.call('fs.delete', { path: 'README.md' });
        await ready(cardOf(ann, call.approval.id));
        await pause(700);
        await cardOf(ann, call.approval.id).getByRole('button', { name: /^Approve/ }).click();
        await cardOf(ann, call.approval.id).getByText('You have approved; somebody else has to, too.').waitFor();
        const again = await cardOf(ann, call.approval.id).getByRole('button', { name: /^Approve/ }).isDisabled();
        await cardOf(bob, call.approval.id).getByText('1 of 2 people have approved: ann').waitFor();
        const between = (await gate.ask('GET', `/v1/calls/${call.call_id}`)).body.status;
        await cardOf(bob, call.approval.id).getByRole('button', { name: /^Approve/ }).click();
        await cardOf(bob, call.approval.id).getByText('Approved, once.').waitFor();
        await cardOf(ann, call.approval.id).getByText('This question is no longer open.').waitFor();
        return { again, between, outcome: (await gate.outcome(call.call_id)).status };
    },

    /** Nobody answers while somebody looks. */
    async expiry(gate, eyes) {
        const page = await eyes.look(gate);
        const call = await gate.call('shell', CLEAN);
        const card = cardOf(page, call.approval.id);
        const left = await card.locator('.left').innerText();
        await card.getByText('Nobody answered in time; the call is refused.').waitFor();
        const acts = await card.getByRole('button', { name: /^(Approve|Deny)/ }).count();
        return { left, acts, outcome: (await gate.outcome(call.call_id)).reason.code };
    },

    /** The gate goes and comes back: the page says so, and what waited still waits. */
    async restart(gate, eyes) {
        const page = await eyes.look(gate, { expects: /net::ERR|Failed to load resource|401/ });
        const call = await gate.call('shell', CLEAN);
        await ready(cardOf(page, call.approval.id));
        await gate.stop();
        await page.getByText('reconnecting').waitFor();
        const lost = await page.locator('#live').innerText();
        await gate.start(new URL(gate.url).host);
        const back = page.locator('#live[data-state=live], #signed-out:visible').first();
        await back.waitFor({ timeout: 30000 });
        await page.goto(gate.signIn);
        const card = cardOf(page, call.approval.id);
        await ready(card);
        await pause(700);
        await card.getByRole('button', { name: /^Approve/ }).click();
        await card.getByText('Approved, once.').waitFor();
        return { lost, outcome: (await gate.outcome(call.call_id)).status };
    },

    /** What wants to be more than text is text; and what is long stays usable. */
    /** More questions than anybody reads: the first are there soon, keys work, and it says how many there are. */
    async many(gate, eyes) {
        const many = Number(process.env.MANY);
        // Whoever proposes does not answer.
        const loader = toolgate('operators', 'add', 'loader', '--role', 'admin').split('\n')[0].trim();
        for (let first = 0; first < many; first += 20) {
            const calls = Array.from({ length: Math.min(20, many - first) }, (_, number) => ({ tool: 'http.request', arguments: { url: `https://api.example.com/v1/items/${first + number}`, method: 'POST', body: '{}' } }));
            const headers = { Authorization: `Bearer ${loader}`, 'X-Toolgate-Agent': `a${first / 20}`, 'Content-Type': 'application/json' };
            const response = await fetch(`${gate.url}/v1/calls:batch`, { method: 'POST', headers, body: JSON.stringify({ calls, wait_seconds: 0 }) });
            const { results } = await response.json();
            if (results.some(({ status }) => status !== 'waiting')) throw new Error(JSON.stringify(results));
        }
        const began = Date.now();
        const page = await eyes.look(gate, { link: await gate.linkFor(gate.operator) });
        await page.locator('#queue > .card').first().waitFor();
        const toFirst = Date.now() - began;
        await page.locator('#rest:visible').waitFor();
        const toAll = Date.now() - began;
        const cards = await page.locator('#queue > .card').count();
        const [rest, title] = [await page.locator('#rest').innerText(), await page.title()];
        await page.locator('#approvals-title').focus();
        const keys = [];
        for (let times = 0; times < 5; times += 1) {
            const pressed = await page.evaluate(() => performance.now());
            const before = await page.evaluate(() => document.activeElement.getAttribute('aria-labelledby'));
            await page.keyboard.press('j');
            await page.waitForFunction((was) => document.activeElement.matches('.card') && document.activeElement.getAttribute('aria-labelledby') !== was, before);
            keys.push(Math.round((await page.evaluate(() => performance.now())) - pressed));
        }
        // The one that is marked is approved by a key, and the next one behind the page takes its place.
        const marked = page.locator('.card:focus');
        await marked.locator('button.approve:enabled').waitFor();
        const id = (await page.evaluate(() => document.activeElement.getAttribute('aria-labelledby'))).replace('tool-', '');
        await pause(700);
        const answered = Date.now();
        await page.keyboard.press('a');
        await until('it is approved', async () => (await cardOf(page, id).innerText().catch(() => 'Approved')).includes('Approved'));
        const toAnswer = Date.now() - answered;
        await until('the rest is fewer', async () => (await page.locator('#rest').innerText()).startsWith(`${many - 201} `));
        return { toFirst, toAll, cards, rest, title, keys, toAnswer };
    },

    async hostile(gate, eyes) {
        const page = await eyes.look(gate);
        const evil = '<img src=x onerror=alert(1)><script>alert(2)</script>';
        const words = [evil, '![x](pixel.png)', '\u001b]0;title\u0007\u001b[2Jclick', '\u202egnp.exe', 'javascript:alert(3)', '&lt;b&gt;'];
        const call = await gate.call('shell', { command: 'echo', args: words, profile: 'mutate' }, { purpose: `${evil} \u202e ![](http://203.0.113.9/p)`, task: 'a' });
        const card = cardOf(page, call.approval.id);
        const seen = await shown(card);
        const foreign = await page.locator('#queue img, #queue script, #queue iframe, #queue a[href^="http"], #queue a[href^="javascript"]').count();
        await pause(700);
        await card.getByRole('button', { name: /^Approve/ }).click();
        await card.getByText('Approved, once.').waitFor();
        await gate.outcome(call.call_id);
        await eyes.go(page, `call/${call.call_id}`, '#other .timeline');
        const told = await page.locator('#other').innerText();
        const inStory = await page.locator('#other img, #other script, #other iframe, #other a[href^="http"]').count();
        await eyes.go(page, 'live', '.calls-table tbody tr');
        const long = await gate.call('fs.write', { path: 'deploy/long.txt', content: 'x'.repeat(500_000) + '\u200b'.repeat(20_000) + 'a\u200b'.repeat(50_000) + '\n![](http://203.0.113.9/p.png)' + evil.repeat(2_000) });
        await eyes.go(page, 'approvals');
        const box = cardOf(page, long.approval.id);
        await box.getByRole('button', { name: 'Show all of it' }).waitFor();
        const before = await box.getByRole('button', { name: /^Approve/ }).isDisabled();
        const began = Date.now();
        await box.getByRole('button', { name: 'Show all of it' }).click();
        await ready(box);
        const took = Date.now() - began;
        const pressed = Date.now();
        await page.keyboard.press('?');
        await page.locator('#help[open]').waitFor();
        const answers = Date.now() - pressed;
        await page.keyboard.press('Escape');
        const whole = canonical(JSON.parse(await takenBack(box)));
        const bound = (await gate.ask('GET', `/v1/approvals/${long.approval.id}`)).body.arguments_digest;
        return { seen, foreign, inStory, told, before, took, answers, whole, bound };
    },
};

const gate = await new Gate().start();
const eyes = await Eyes.open();
try {
    const seen = await scenarios[process.argv[2]](gate, eyes);
    console.log(JSON.stringify({ ...seen, problems: eyes.problems }));
} finally {
    await eyes.browser.close();
    await gate.stop();
}
