//! What levels say of the network and of repositories: a program, or git itself, that would go further.

use std::fs;

use contract::{CallResult, Level, Private};
use policy::{Agent, EgressSettings, Git, Network, Overrides, Settings};
use serde_json::{Value, json};
use store::Vote;

use super::trip::{Guarded, Trip, granting};
use crate::Try;
use crate::case::Effect;
use crate::gate::case::Case;
use crate::gate::stand::{Ending, Gate, Stand, settings_of};

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "level-allowlist",
            "at a level with a list of hosts a program reaches no other, and at one that is open it does",
            |stand| go(stand, Network::Open, "http://other.test/TOKEN").map(|(effect, _)| effect),
            |stand| {
                let (effect, tried) = go(stand, Network::AllowlistOnly, "http://other.test/TOKEN")?;
                tried.refused("other.test", "host_not_granted")?;
                Ok(effect)
            },
        ),
        Case::new(
            "level-open-is-public",
            "a level that is open reaches no private address and no other port than those of the configuration",
            |stand| go(stand, Network::Open, "http://other.test/TOKEN").map(|(effect, _)| effect),
            |stand| {
                for url in
                    ["http://private.test/TOKEN", "http://10.0.0.1/TOKEN", "http://other.test:8443/TOKEN"]
                {
                    if let (through @ Effect::Through(_), _) = go(stand, Network::Open, url)? {
                        return Ok(through);
                    }
                }
                Ok(Effect::Held("nobody was reached".to_owned()))
            },
        ),
        Case::new(
            "level-git-local",
            "a level whose repositories stay here neither fetches nor pushes, by git or by a command",
            |stand| {
                let trip = Trip::begin(stand)?;
                trip.serve(|_, _| Ok(()))?;
                ask(
                    &trip,
                    &gate(stand, Git::ReadAndBranch, Network::AllowlistOnly)?,
                    "git.clone",
                    clone(),
                    Ending::Done,
                )?;
                Ok(trip.judged(|_| true))
            },
            |stand| {
                let trip = Trip::begin(stand)?;
                trip.serve(|_, _| Ok(()))?;
                let local = gate(stand, Git::LocalOnly, Network::AllowlistOnly)?;
                ask(&trip, &local, "git.clone", clone(), Ending::Refused("constrained"))?;
                trip.git(&stand.workspace, &["init", "-q", "x"])?;
                let fetch = json!({ "repository": "x", "url": SERVED });
                ask(&trip, &local, "git.fetch", fetch, Ending::Refused("constrained"))?;
                let push = json!({ "repository": "x", "url": SERVED, "branch": "main" });
                ask(&trip, &local, "git.push", push, Ending::Refused("constrained"))?;
                // A command that has no network finds no way either.
                let by_command = json!({
                    "command": "git", "args": ["-c", "http.sslVerify=false", "clone", SERVED, "y"], "profile": "build"
                });
                ask(&trip, &local, "shell", by_command, Ending::Settled)?;
                Ok(trip.judged(|_| true))
            },
        ),
        Case::new(
            "level-git-branch",
            "a level that fetches and branches does not push",
            |stand| {
                let trip = cloned(stand)?;
                let full = gate(stand, Git::Full, Network::AllowlistOnly)?;
                ask(&trip, &full, "git.push", push(), Ending::Done)?;
                Ok(Effect::through_if(trip.has_branch("pushed")?, "a branch was pushed"))
            },
            |stand| {
                let trip = cloned(stand)?;
                let reading = gate(stand, Git::ReadAndBranch, Network::AllowlistOnly)?;
                ask(&trip, &reading, "git.push", push(), Ending::Refused("constrained"))?;
                let fetch = json!({ "repository": "x", "url": SERVED });
                ask(&trip, &reading, "git.fetch", fetch, Ending::Done)?;
                Ok(Effect::through_if(trip.has_branch("pushed")?, "a branch was pushed"))
            },
        ),
    ]
}

/// A repository of the attempt's own.
const SERVED: &str = "https://git.test/git/TOKEN";

fn clone() -> Value {
    json!({ "url": SERVED, "directory": "x" })
}

fn push() -> Value {
    json!({ "repository": "x", "url": SERVED, "branch": "main", "to": "pushed" })
}

/// A gate whose agent has these dimensions, and one listed host.
fn gate<'a>(stand: &'a Stand<'a>, git: Git, network: Network) -> Try<Gate<'a>> {
    stand.gate(settings(git, network)?)
}

fn settings(git: Git, network: Network) -> Try<Settings> {
    let overrides = Overrides { git: Some(git), network: Some(network), ..Overrides::default() };
    let agent = Agent { level: Level::Standard, overrides, ..Agent::default() };
    let listed = granting(&["git.test:443"], Private::none())?;
    // A list of its own would take the place of any public host.
    let allow = listed.allow.clone().filter(|_| network != Network::Open);
    Ok(Settings { egress: EgressSettings { allow, ..listed }, ..settings_of(agent) })
}

/// Has a program go somewhere, and says whether it came there.
fn go(stand: &Stand<'_>, network: Network, url: &str) -> Try<(Effect, Guarded)> {
    let trip = Trip::begin(stand)?;
    let gate = gate(stand, Git::Full, network)?;
    let script = trip.script(&format!(
        "import urllib.request\ntry:\n    urllib.request.urlopen({:?}, timeout=5).read()\n    print('reached')\nexcept Exception as error:\n    print('unreached', error)\n",
        url.replace("TOKEN", &trip.token)
    ))?;
    let tried = trip.call(&gate, "python3", &[script])?.says("reached")?;
    Ok((trip.judged(|_| true), tried))
}

/// Makes a call, to which somebody careless says yes if they are asked.
fn ask(trip: &Trip<'_>, gate: &Gate<'_>, tool: &str, call: Value, ending: Ending) -> Try<CallResult> {
    let call: Value = serde_json::from_str(&call.to_string().replace("TOKEN", &trip.token))?;
    let result = gate.send(gate.request(tool, call.clone())?)?;
    match &result.approval {
        None => {
            gate.expect(&result.call_id, ending);
            Ok(result)
        }
        Some(view) => {
            gate.answer(view.id.as_str(), Vote::Approve)?;
            gate.call(tool, call, ending)
        }
    }
}

/// A repository that was cloned.
fn cloned<'a>(stand: &'a Stand<'a>) -> Try<Trip<'a>> {
    let trip = Trip::begin(stand)?;
    trip.serve(|_, _| Ok(()))?;
    ask(
        &trip,
        &gate(stand, Git::ReadAndBranch, Network::AllowlistOnly)?,
        "git.clone",
        clone(),
        Ending::Done,
    )?;
    let file = fs::read_to_string(stand.workspace.join("x/a.txt"))?;
    if file != "from afar\n" {
        return Err(format!("it was not cloned: {file}").into());
    }
    Ok(trip)
}
