// A real browser with an authenticator of its own: comes in by a link, sets a password, adds a passkey, and comes in by each.
import { chromium } from "playwright-core";

const [link, executablePath] = process.argv.slice(2);
const browser = await chromium.launch({
  executablePath, headless: true,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-sync"],
});
const problems = [];
try {
  const context = await browser.newContext();
  const page = await context.newPage();
  page.on("pageerror", (error) => problems.push(String(error)));
  // A page that is still asking when its session is signed out is answered 401, and the browser says so.
  let isOut = false;
  const isSignedOut = (message) => isOut && message.text().includes("status of 401");
  page.on("console", (message) => { if (message.type() === "error" && !isSignedOut(message)) problems.push(message.text()); });
  const devtools = await context.newCDPSession(page);
  await devtools.send("WebAuthn.enable");
  await devtools.send("WebAuthn.addVirtualAuthenticator", {
    options: {
      protocol: "ctap2", transport: "internal", hasResidentKey: true, hasUserVerification: true,
      isUserVerified: true, automaticPresenceSimulation: true,
    },
  });
  // Passkeys belong to a name.
  const byName = link.replace("127.0.0.1", "localhost");
  const home = new URL("/", byName).href;
  const signIn = new URL("/sign-in", byName).href;
  await page.goto(byName);
  await page.goto(signIn);
  await page.locator("#own").waitFor();
  await page.fill("#choose", "correct horse battery");
  await page.click("#choose-form button");
  await page.locator("#why", { hasText: "The password is set." }).waitFor();
  await page.fill("#label", "this browser");
  await page.click("#add-form button");
  await page.locator("#passkeys li").waitFor();

  const signedOut = async () => {
    isOut = true;
    await page.evaluate(async () => {
      const token = localStorage.getItem("toolgate.page");
      await fetch("/v1/sign-out", { method: "POST", headers: { "X-Toolgate-Page": token } });
      localStorage.clear();
    });
    await page.goto(signIn);
  };
  const who = () => (isOut = false, page.evaluate(async () => {
    const headers = { "X-Toolgate-Page": localStorage.getItem("toolgate.page") || "" };
    const response = await fetch("/v1/me", { headers });
    return response.ok ? (await response.json()).operator : response.status;
  }));
  await signedOut();
  await page.click("#passkey");
  await page.waitForURL(home);
  const byPasskey = await who();
  await signedOut();
  await page.fill("#operator", "me");
  await page.fill("#password", "correct horse battery");
  await page.click("#password-form button");
  await page.waitForURL(home);
  const byPassword = await who();
  await signedOut();
  const expected = problems.length;
  await page.fill("#operator", "me");
  await page.fill("#password", "correct horse batterz");
  await page.click("#password-form button");
  await page.locator("#trouble", { hasText: "nobody" }).waitFor();
  // The browser itself tells of the 401.
  problems.length = Math.min(problems.length, expected);
  console.log(JSON.stringify({ byPasskey, byPassword, problems }));
} finally {
  await browser.close();
}
