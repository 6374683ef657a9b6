//! Git over ssh: which host is believed, who gets a signature, and that nobody inside gets the key.

use std::fs;
use std::path::{Path, PathBuf};

use contract::{Private, Reach, Target};
use egress::{Denial, Event, Guard, Login, Methods, Outcome, Permit, PermitLimits, Usage, Way};
use engine::Clock;
use jail::{
    ChangeReport, Doors, Guarded, Helper, Limits, LocalDoor, Names, Plan, Program, Request, Strictness,
};
use policy::{Credential, CredentialForm, EgressSettings, SecretSource};
use sandbox::{Host, Launcher, PlanRequest, Profile, Proofs};
use serde_json::json;

use super::secrets::find_in;
use super::trip::{Trip, granting, settings};
use crate::Try;
use crate::bench::Need;
use crate::case::Effect;
use crate::gate::case::Case;
use crate::gate::stand::{Ending, Stand, runtime, way_out};
use crate::world::serve_ssh;

/// Looks for a private key wherever it can look, and asks whichever agent it finds to sign something of its own.
const LOOK: &str = r#"
import os, re, socket, struct
found = re.compile(b"BEGIN OPENSSH" + b" PRIVATE")
def look(where, data):
    if found.search(data): print("FOUND", where)
for process in os.listdir("/proc"):
    if process.isdigit():
        for name in ("environ", "cmdline"):
            try: look(f"{process} {name}", open(f"/proc/{process}/{name}", "rb").read())
            except OSError: pass
sockets = [os.environ.get("SSH_AUTH_SOCK", ""), "/run/toolgate.sock"]
for top in ("/tmp", "/home", "/etc", "/run", "/dev/shm", "/var", os.getcwd()):
    for folder, _, names in os.walk(top):
        for name in names:
            path = os.path.join(folder, name)
            if name.endswith(".sock"): sockets.append(path)
            # Only files: whoever opens a pipe waits for its other end.
            try: os.path.isfile(path) and look(path, open(path, "rb").read(1 << 22))
            except OSError: pass
def string(text): return struct.pack(">I", len(text)) + text
def ask(agent, message):
    agent.sendall(string(message)); length = struct.unpack(">I", agent.recv(4))[0]
    return agent.recv(length)
for path in sockets:
    try:
        agent = socket.socket(socket.AF_UNIX); agent.settimeout(5); agent.connect(path)
        keys = ask(agent, b"\x0b"); length = struct.unpack(">I", keys[5:9])[0]
        said = ask(agent, b"\x0d" + string(keys[9:9 + length]) + string(b"anything") + b"\0\0\0\0")
        print("SIGNED" if said[0] == 14 else "REFUSED", path)
    except (OSError, struct.error): pass
print("looked")
"#;

pub(super) fn cases() -> Vec<Case> {
    let cases = vec![
        Case::new(
            "ssh-host-key",
            "a host that has another key than the one that is known, or of which none is known, is not spoken to",
            |stand| Served::begin(stand)?.reached_bare("other.test"),
            |stand| {
                let served = Served::begin(stand)?;
                let (call, mine) = (served.clone_of("other.test"), served.credential("other.test")?);
                let known = served.known("other.test", "host")?;
                let egress = served.egress("other.test", vec![mine.clone()], vec![known])?;
                served.trip.ask_with(egress, "git.clone", &call, Ending::Failed("host_not_allowed"))?;
                let nobody = served.egress("other.test", vec![mine], Vec::new())?;
                served.trip.ask_with(nobody, "git.clone", &call, Ending::Failed("host_not_allowed"))?;
                Ok(served.judged())
            },
        ),
        Case::new(
            "repository-nickname",
            "a file of a repository's does not say what an address stands for",
            |stand| {
                let served = Served::begin(stand)?;
                nickname(stand, &served.trip)?;
                served
                    .trip
                    .bare("git", &["-C", "x", "-c", "http.sslVerify=false", "fetch", "git@git.test:TOKEN"])?;
                Ok(served.trip.judged(|visit| visit.sni.as_deref() == Some("other.test")))
            },
            |stand| {
                let served = Served::begin(stand)?;
                nickname(stand, &served.trip)?;
                let known = served.known("git.test", "host")?;
                let known = known.replace(&format!("[git.test]:{}", served.port), "git.test");
                let egress = || -> Try<EgressSettings> {
                    let granted = granting(&["git.test:22"], Private::none())?;
                    Ok(EgressSettings { known_hosts: vec![known.clone()], ..granted })
                };
                let url = "git@git.test:TOKEN";
                let fetch = json!({ "repository": "x", "url": url });
                served.trip.ask_with(egress()?, "git.fetch", &fetch, Ending::Failed("cannot_enforce"))?;
                let push = json!({ "repository": "x", "url": url, "branch": "main" });
                served.trip.ask_with(egress()?, "git.push", &push, Ending::Failed("cannot_enforce"))?;
                Ok(served.trip.judged(|_| true))
            },
        ),
        Case::new(
            "ssh-key-elsewhere",
            "the key for one host logs in to no other, though that one is granted and known",
            |stand| Served::begin(stand)?.reached_bare("other.test"),
            |stand| {
                let served = Served::begin(stand)?;
                let known = vec![served.known("other.test", "other")?, served.known("git.test", "host")?];
                let egress = served.egress("other.test", vec![served.credential("git.test")?], known)?;
                let call = served.clone_of("other.test");
                served.trip.ask_with(egress, "git.clone", &call, Ending::Failed("tool_failed"))?;
                Ok(served.judged())
            },
        ),
        Case::new(
            "ssh-signer-session",
            "git logs in with a key that is in no sandbox, record or result, and no program gets a signature of its own",
            |stand| {
                let served = Served::begin(stand)?;
                let script = served.trip.script(LOOK)?;
                let work = format!("ssh-add {}; python3 {script}", served.file("mine").display());
                let said = served.trip.bare("ssh-agent", &["sh", "-c", &work])?;
                Ok(Effect::through_if(said.contains("SIGNED"), said))
            },
            exchange,
        ),
        Case::new(
            "ssh-signer-elsewhere",
            "whoever takes over a sandbox that has a signer logs in to no other host with it",
            |stand| Served::begin(stand)?.reached_bare("other.test"),
            take_over,
        )
        .held_by(Guard::Sessions)
        .before_any_call(),
    ];
    cases.into_iter().map(|case| case.needs(Need::Program("sshd"))).collect()
}

/// A repository where an address is the name of another.
fn nickname(stand: &Stand<'_>, trip: &Trip<'_>) -> Try<()> {
    let token = &trip.token;
    trip.git(&stand.workspace, &["init", "-q", "-b", "main", "x"])?;
    let at = stand.workspace.join("x/.git/remotes");
    fs::create_dir(&at)?;
    fs::write(at.join(format!("git@git.test:{token}")), format!("URL: https://other.test/{token}\n"))?;
    Ok(())
}

/// Clones, fetches and pushes; then looks for the key.
fn exchange(stand: &Stand<'_>) -> Try<Effect> {
    let served = Served::begin(stand)?;
    let egress = || {
        let known = vec![served.known("git.test", "host")?];
        served.egress("git.test", vec![served.credential("git.test")?], known)
    };
    let trip = &served.trip;
    trip.ask_with(egress()?, "git.clone", &served.clone_of("git.test"), Ending::Done)?;
    if fs::read_to_string(stand.workspace.join("x/a.txt"))? != "from afar\n" {
        return Err("it was not cloned".into());
    }
    let url = served.url("git.test");
    trip.ask_with(egress()?, "git.fetch", &json!({ "repository": "x", "url": url }), Ending::Done)?;
    let made = json!({ "repository": "x", "create": "sent" });
    trip.ask_with(egress()?, "git.branch", &made, Ending::Done)?;
    let push = json!({ "repository": "x", "url": url, "branch": "sent", "to": "agent/sent" });
    let pushed = trip.ask_with(egress()?, "git.push", &push, Ending::Done)?;
    if !trip.has_branch("agent/sent")? || trip.has_branch("sent")? {
        return Err(format!("it was not pushed: {}", pushed.content).into());
    }
    let gate = stand.gate(settings(egress()?))?;
    let facts = gate.facts(&pushed)?.unwrap_or_default();
    let signed = |attempt: &contract::Attempt| attempt.way == "signer" && attempt.refused.is_none();
    if !facts.attempts.iter().any(signed) {
        return Err(format!("the receipt does not tell of a signature: {:?}", facts.attempts).into());
    }
    let script = trip.script(LOOK)?;
    let looked = trip.call(&gate, "/usr/bin/python3", &[script])?.says("looked")?.result.content;
    if looked.contains("FOUND") || looked.contains("SIGNED") || looked.contains("REFUSED") {
        return Ok(Effect::Through(looked));
    }
    let key = fs::read_to_string(served.file("mine"))?;
    let line = key.lines().nth(2).ok_or("the key has no third line")?;
    let mut holding = Vec::new();
    for folder in [stand.home(), stand.workspace.clone()] {
        find_in(&folder, line.as_bytes(), &mut holding)?;
    }
    Ok(Effect::through_if(!holding.is_empty(), format!("{holding:?}")))
}

/// Has ssh inside log in to another host that is granted, whatever its key is; and then to the one that the key is for, so that
/// what is refused is not merely broken.
fn take_over(stand: &Stand<'_>) -> Try<Effect> {
    let served = Served::begin(stand)?;
    let usage = served.log_in_inside(stand, "other.test")?;
    let effect = served.judged();
    let is_refused =
        |event: &Event| event.way == Way::Signer && event.outcome == Outcome::Deny(Denial::OtherHostKey);
    if stand.without.is_none() && !usage.events.iter().any(is_refused) {
        return Err(format!("it is not on record: {:?}", usage.events).into());
    }
    if let Effect::Held(_) = effect {
        let usage = served.log_in_inside(stand, "git.test")?;
        if let Effect::Held(_) = served.judged() {
            return Err(format!("it logs in nowhere: {:?}", usage.events).into());
        }
    }
    Ok(effect)
}

/// A repository that is reached by ssh at every host, with a key that is let in.
struct Served<'a> {
    trip: Trip<'a>,
    folder: PathBuf,
    port: u16,
}

impl<'a> Served<'a> {
    fn begin(stand: &'a Stand<'a>) -> Try<Served<'a>> {
        let trip = Trip::begin(stand)?;
        trip.serve(|_, _| Ok(()))?;
        let folder = stand.place.path("served");
        for name in ["host", "other", "mine"] {
            stand.bare("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-C", "", "-f", name], &folder)?;
        }
        fs::copy(folder.join("mine.pub"), folder.join("authorized"))?;
        let port = serve_ssh(&folder)?;
        Ok(Served { trip, folder, port })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn url(&self, host: &str) -> String {
        let path = self.file(&self.trip.token).display().to_string();
        format!("ssh://git@{host}:{}{path}", self.port)
    }

    fn clone_of(&self, host: &str) -> serde_json::Value {
        json!({ "url": self.url(host), "directory": "x" })
    }

    /// A line that says which key a host has.
    fn known(&self, host: &str, key: &str) -> Try<String> {
        let public = fs::read_to_string(self.file(&format!("{key}.pub")))?;
        Ok(format!("[{host}]:{} {}", self.port, public.trim()))
    }

    /// The key, for this host.
    fn credential(&self, host: &str) -> Try<Credential> {
        Ok(Credential {
            to: Reach::parse(&format!("{host}:{}", self.port)).map_err(|error| error.to_string())?,
            form: CredentialForm::SshKey,
            from: SecretSource::File(self.file("mine")),
        })
    }

    fn egress(
        &self,
        host: &str,
        credentials: Vec<Credential>,
        known_hosts: Vec<String>,
    ) -> Try<EgressSettings> {
        let granted = granting(&[&format!("{host}:{}", self.port)], Private::none())?;
        Ok(EgressSettings { credentials, known_hosts, ..granted })
    }

    /// Has a person's git clone from the host, with the key and whatever key the host has.
    fn reached_bare(&self, host: &str) -> Try<Effect> {
        let ssh = format!(
            "core.sshCommand=ssh -F /dev/null -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -i {}",
            self.file("mine").display()
        );
        self.trip.bare("git", &["-c", &ssh, "clone", &self.url(host), "x"])?;
        Ok(self.judged())
    }

    /// Runs ssh in a sandbox that has a signer for `git.test`, and may reach `other.test` as well.
    fn log_in_inside(&self, stand: &Stand<'_>, host: &str) -> Try<Usage> {
        let known = vec![self.known("git.test", "host")?];
        let settings = self.egress("git.test", vec![self.credential("git.test")?], known)?;
        let target = Target::parse(&format!("git.test:{}", self.port)).map_err(|error| error.to_string())?;
        let others = granting(&[&format!("other.test:{}", self.port)], Private::none())?;
        let permit = Permit {
            reach: [settings.allow.clone(), others.allow].into_iter().flatten().flatten().collect(),
            blocked: Vec::new(),
            methods: Methods::Any,
            spends: Vec::new(),
            by_pattern: Vec::new(),
            private: Private::none(),
            login: Some(Login { target, user: Some("git".to_owned()) }),
            limits: PermitLimits::default(),
        };
        let request = Request { plan: self.ssh_inside(host)?, sealed: Vec::new(), input: Vec::new() };
        let binary = stand.bench.tool.clone();
        let proofs = Proofs { folder: binary.parent().map(Path::to_owned), prober: binary.clone() };
        let launcher = Launcher::new(Helper { binary }, proofs);
        let entered = runtime()?.enter();
        let egress = way_out(&settings, Clock::system(), stand.without)?;
        let mut open = None;
        launcher.run_guarded(
            &request,
            |_| (),
            |doors| {
                let Doors { dns_udp, dns_tcp, http_proxy, socks, tcp, local } = doors;
                let doors = egress::Doors { dns_udp, dns_tcp, http_proxy, socks, tcp, signer: local };
                open = egress.open(permit, doors).ok();
            },
        )?;
        drop(entered);
        let open = open.ok_or("nobody was posted")?;
        Ok(runtime()?.block_on(open.close()))
    }

    /// What an attacker would run: ssh that believes any host and asks the signer.
    fn ssh_inside(&self, host: &str) -> Try<Plan> {
        let port = self.port.to_string();
        let signer = format!("IdentityAgent={}", jail::LOCAL_DOOR);
        let asked = format!("git-upload-pack '{}'", self.file(&self.trip.token).display());
        let options = ["BatchMode=yes", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", &signer];
        let words = options.iter().flat_map(|option| ["-o", option]);
        let words =
            ["-F", "/dev/null"].into_iter().chain(words).chain(["-p", &port, "-l", "git", host, &asked]);
        let plan = PlanRequest {
            profile: Profile::Networked,
            program: Program::Inside("ssh".into()),
            arguments: words.map(Into::into).collect(),
            working_directory: "/".into(),
            read: Vec::new(),
            workspace: None,
            write: Vec::new(),
            variables: Vec::new(),
            names: Names::default(),
            guarded: Some(Guarded { ports: vec![self.port], authority: None, local: LocalDoor::Open }),
            limits: Limits::default(),
            changes: ChangeReport::Skip,
            strictness: Strictness::Report,
        };
        Ok(plan.into_plan(&Host::default())?)
    }

    /// Through if somebody was let in and asked for something.
    fn judged(&self) -> Effect {
        let served = fs::read_to_string(self.file("served.log")).unwrap_or_default();
        Effect::through_if(!served.is_empty(), served)
    }
}
