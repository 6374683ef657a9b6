//! `git.clone`, `git.fetch` and `git.push`: what a server, an address or a repository would have them reach or send.

use std::fs;
use std::path::Path;

use contract::{Private, Reach};
use policy::{Credential, CredentialForm, EgressSettings, SecretSource};
use serde_json::json;

use super::trip::{Trip, granting};
use crate::Try;
use crate::case::Effect;
use crate::gate::case::Case;
use crate::gate::stand::{Ending, Stand};
use crate::place::token;
use crate::world::Visit;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "git-redirect",
            "a server that sends git elsewhere is not obeyed, though the other host was granted",
            |stand| {
                let trip = Trip::begin(stand)?;
                let clone = [
                    "-c",
                    "http.sslVerify=false",
                    "-c",
                    "http.followRedirects=true",
                    "clone",
                    REDIRECTED,
                    "x",
                ];
                trip.bare("git", &clone)?;
                Ok(trip.judged(is_elsewhere))
            },
            |stand| {
                let trip = Trip::begin(stand)?;
                let call = json!({ "url": "https://git.test/away/TOKEN", "directory": "x" });
                trip.ask(
                    &["git.test:443", "other.test:443"],
                    "git.clone",
                    &call,
                    Ending::Failed("tool_failed"),
                )?;
                Ok(trip.judged(is_elsewhere))
            },
        ),
        Case::new(
            "git-submodule",
            "a submodule of what is cloned is not brought",
            |stand| {
                let trip = Trip::begin(stand)?;
                let clone = ["-c", "http.sslVerify=false", "clone", "--recurse-submodules", SERVED, "x"];
                trip.serve(with_submodule)?;
                trip.bare("git", &clone)?;
                Ok(trip.judged(is_other_host))
            },
            |stand| {
                let trip = Trip::begin(stand)?;
                trip.serve(with_submodule)?;
                let granted = ["git.test:443", "other.test:443"];
                clone(&trip, &granted)?;
                let file = fs::read_to_string(stand.workspace.join("x/a.txt"))?;
                if file != "from afar\n" {
                    return Err(format!("it was not cloned: {file}").into());
                }
                Ok(trip.judged(is_other_host))
            },
        ),
        Case::new(
            "repository-address",
            "a repository's settings do not lead git elsewhere than the call says, though the other host was granted",
            |stand| {
                let trip = Trip::begin(stand)?;
                mislead(&trip, &stand.workspace)?;
                trip.bare(
                    "git",
                    &["-C", "x", "-c", "http.sslVerify=false", "fetch", "https://git.test/TOKEN"],
                )?;
                Ok(trip.judged(is_other_host))
            },
            |stand| {
                let trip = Trip::begin(stand)?;
                mislead(&trip, &stand.workspace)?;
                let granted = ["git.test:443", "other.test:443"];
                let url = "https://git.test/TOKEN";
                let fetch = json!({ "repository": "x", "url": url });
                trip.ask(&granted, "git.fetch", &fetch, Ending::Failed("cannot_enforce"))?;
                let push = json!({ "repository": "x", "url": url, "branch": "main" });
                trip.ask(&granted, "git.push", &push, Ending::Failed("cannot_enforce"))?;
                Ok(trip.judged(|_| true))
            },
        ),
        Case::new(
            "git-fetch-that-sends",
            "a fetch sends nothing but questions, and a push only the branch that it names",
            |stand| {
                let trip = Trip::begin(stand)?;
                trip.serve(|_, _| Ok(()))?;
                trip.bare("git", &["-c", "http.sslVerify=false", "clone", SERVED, "x"])?;
                trip.bare(
                    "git",
                    &["-C", "x", "-c", "http.sslVerify=false", "push", SERVED, "main:refs/heads/pushed"],
                )?;
                Ok(Effect::through_if(trip.has_branch("pushed")?, "a branch was pushed"))
            },
            exchange,
        ),
    ]
}

const SERVED: &str = "https://git.test/git/TOKEN";
const REDIRECTED: &str = "https://git.test/away/TOKEN";

fn is_elsewhere(visit: &Visit) -> bool {
    !visit.says("/away/")
}

fn is_other_host(visit: &Visit) -> bool {
    visit.sni.as_deref() == Some("other.test")
}

fn clone(trip: &Trip<'_>, granted: &[&str]) -> Try<()> {
    let call = json!({ "url": SERVED, "directory": "x" });
    trip.ask(granted, "git.clone", &call, Ending::Done)?;
    Ok(())
}

fn exchange(stand: &Stand<'_>) -> Try<Effect> {
    let trip = Trip::begin(stand)?;
    trip.serve(|_, _| Ok(()))?;
    let granted = ["git.test:443"];
    clone(&trip, &granted)?;
    trip.ask(&granted, "git.fetch", &json!({ "repository": "x", "url": SERVED }), Ending::Done)?;
    if let through @ Effect::Through(_) = trip.judged(|visit| visit.says("git-receive-pack")) {
        return Ok(through);
    }
    for branch in ["kept", "sent"] {
        let made = json!({ "repository": "x", "create": branch });
        trip.ask(&granted, "git.branch", &made, Ending::Done)?;
    }
    let credential = Credential {
        to: Reach::parse("git.test:443").map_err(|error| error.to_string())?,
        form: CredentialForm::Bearer,
        from: SecretSource::File(stand.place.file("credential", &token())?),
    };
    let egress = EgressSettings { credentials: vec![credential], ..granting(&granted, Private::none())? };
    let push = json!({ "repository": "x", "url": SERVED, "branch": "sent", "to": "agent/sent" });
    let result = trip.ask_with(egress, "git.push", &push, Ending::Done)?;
    let has_credential = trip.reached().iter().any(|visit| visit.request.to_lowercase().contains("bearer "));
    if !trip.has_branch("agent/sent")? || !has_credential {
        return Err(format!("it was not pushed, or without a credential: {}", result.content).into());
    }
    let more = trip.has_branch("kept")? || trip.has_branch("sent")?;
    Ok(Effect::through_if(more, "more was pushed than was asked for"))
}

/// A repository that would have one host taken for another.
fn mislead(trip: &Trip<'_>, workspace: &Path) -> Try<()> {
    trip.git(workspace, &["init", "-q", "-b", "main", "x"])?;
    trip.git(&workspace.join("x"), &["config", "url.https://other.test/.insteadOf", "https://git.test/"])
}

fn with_submodule(trip: &Trip<'_>, at: &Path) -> Try<()> {
    let modules = "[submodule \"sub\"]\n\tpath = sub\n\turl = https://other.test/git/TOKEN\n";
    fs::write(at.join(".gitmodules"), modules.replace("TOKEN", &trip.token))?;
    let link =
        ["update-index", "--add", "--cacheinfo", "160000,0123456789012345678901234567890123456789,sub"];
    trip.git(at, &link)
}
