//! `git.*`: real git behind walls, in repositories that nobody vouches for.
//!
//! Each verb is a contract, the words that git is started with, and a reading of what it says. What a repository may tell
//! git is decided where it runs, by `inside::git`. A pull request is none of git's: it is asked for over HTTP, of the host.
//!
//! # Invariants
//! - Nothing is looked up: a repository is the directory that a call names, and lies in the workspace.
//! - A verb that looks cannot write.

mod branch;
mod checkout;
mod clone;
mod commit;
mod diff;
mod fetch;
mod line;
mod log;
mod names;
mod patch;
mod pull_request;
mod push;
mod remote;
mod show;
mod status;

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use clean::Findings;
use contract::{
    Actions, Canonical, Category, Contract, ContractError, Definition, EgressClass, Idempotency, Output,
    Profile, Reason, RunFacts, SafetyClass, Target,
};
use jail::Names;
use policy::{Command, Facets, Grant, Settings};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::inside::{GitUse, Stage, Transport};
use crate::operands::Sealed;
use crate::path::{Beneath, Guard, names_of};
use crate::pipeline::{Commands, Cut, Ended, Ready, SHOWN, cut, danger_of, facets_of};
use crate::reach::Login;
use crate::surroundings::Surroundings;
use crate::tool::{CallKind, Ran, Tool, check_grant, only_looks};
use line::Line;

/// Every verb.
pub(crate) fn all() -> Result<Vec<Arc<dyn Tool>>, ContractError> {
    Ok(vec![
        status::tool()?,
        diff::tool()?,
        log::tool()?,
        show::tool()?,
        branch::tool()?,
        checkout::tool()?,
        commit::tool()?,
        clone::tool()?,
        fetch::tool()?,
        push::tool()?,
        pull_request::tool()?,
    ])
}

/// One verb.
struct Verb<In, Out> {
    definition: Definition,
    /// What a call can be, where that depends on its arguments.
    kinds: Vec<CallKind>,
    /// What is run for a call. Pure.
    work: fn(&In) -> Result<Work, Reason>,
    /// What git's answer means. Pure; the bytes are git's, of a call that went well, and nobody vouches for them.
    read: fn(&In, &[u8]) -> Result<Answer<Out>, Reason>,
}

/// What is run for a call.
struct Work {
    action: &'static str,
    used: GitUse,
    /// Where the repository is, as the caller said it.
    repository: Option<String>,
    /// What comes before, one after the other.
    before: Vec<Line>,
    /// What gives the answer.
    line: Line,
    /// Paths that are named otherwise than after `--`.
    paths: Vec<String>,
    /// Whom it reaches, and what leaves the machine.
    out: Option<(Target, EgressClass)>,
    /// Whom it logs in to on the way, if that is by ssh.
    login: Option<Login>,
}

impl Work {
    fn look(repository: Option<&String>, line: Line) -> Work {
        Work {
            action: "vcs:read",
            used: GitUse::Look,
            repository: repository.cloned(),
            before: Vec::new(),
            line,
            paths: Vec::new(),
            out: None,
            login: None,
        }
    }

    fn change(action: &'static str, repository: Option<&String>, before: Vec<Line>, line: Line) -> Work {
        let looking = Work::look(repository, line);
        Work { action, used: GitUse::Change, before, ..looking }
    }

    /// What reaches another host writes what it brings; where it may connect to, its places say.
    fn profile(&self) -> Profile {
        match self.used {
            GitUse::Look => Profile::Inspect,
            GitUse::Change | GitUse::Clone(_) | GitUse::Exchange(_) => Profile::Build,
        }
    }
}

/// What a verb gives: for programs, and for people and models.
struct Answer<Out> {
    structured: Out,
    content: String,
    /// What was too long to be shown whole, with its name.
    artifacts: Vec<(String, Vec<u8>)>,
    /// What was taken out where something was cut.
    findings: Findings,
}

impl<Out> Answer<Out> {
    fn of(structured: Out, content: String) -> Answer<Out> {
        Answer { structured, content, artifacts: Vec::new(), findings: Findings::default() }
    }
}

/// Cuts a text to what a model is shown of it, and keeps the whole.
fn shortened(bytes: &[u8], name: &str) -> (Cut, Vec<(String, Vec<u8>)>) {
    let cut = cut(bytes, bytes.len() as u64, SHOWN - 1024, name);
    let kept = cut.truncated.then(|| (name.to_owned(), bytes.to_vec()));
    (cut, kept.into_iter().collect())
}

/// What all of them say about themselves.
fn definition<In: schemars::JsonSchema, Out: schemars::JsonSchema>(name: &str) -> Definition {
    Definition {
        category: Category::VersionControl,
        egress: EgressClass::None,
        safety: SafetyClass::Read,
        action: "vcs:read".into(),
        idempotency: Idempotency::Optional,
        ..Definition::of::<In, Out>(name)
    }
}

/// How any of them may fail, besides its own ways.
fn failing(own: &[&str]) -> Vec<String> {
    const COMMON: [&str; 4] = [
        "tool_failed: there is no repository, no such commit, or git says no; what it says is in the answer",
        "cannot_enforce: a setting of the repository runs a program and cannot be switched off; the reason names it",
        "protected: the path usually holds credentials, such as `.env`",
        "outside: an absolute path, or `..`; paths are relative to the repository",
    ];
    own.iter().chain(&COMMON).map(|text| (*text).to_owned()).collect()
}

/// The same for those that reach another host.
fn failing_far(own: &[&str]) -> Vec<String> {
    const FAR: [&str; 2] = [
        "bad_arguments: the address is plain http, a file, a helper such as `ext::`, or holds a password",
        "host_not_allowed: the host is private, blocked, or not granted",
    ];
    failing(&[own, &FAR].concat())
}

impl<In, Out> Verb<In, Out>
where
    In: DeserializeOwned + Send + Sync + 'static,
    Out: Serialize + 'static,
{
    fn build(self) -> Result<Arc<dyn Tool>, ContractError> {
        let Verb { definition, kinds, work, read } = self;
        Ok(Arc::new(Built { contract: Contract::internal(definition)?, kinds, work, read }))
    }
}

struct Built<In, Out> {
    contract: Contract,
    kinds: Vec<CallKind>,
    work: fn(&In) -> Result<Work, Reason>,
    read: fn(&In, &[u8]) -> Result<Answer<Out>, Reason>,
}

impl<In: DeserializeOwned + Send + Sync, Out: Serialize> Tool for Built<In, Out> {
    fn contract(&self) -> &Contract {
        &self.contract
    }

    fn kinds(&self) -> Vec<CallKind> {
        self.kinds.clone()
    }

    fn actions(&self) -> Vec<&str> {
        let looks = self.kinds.iter().any(|kind| kind.safety == SafetyClass::Read).then_some("vcs:read");
        let own = self.contract.definition().action.as_str();
        looks.into_iter().filter(|look| *look != own).chain([own]).collect()
    }

    fn facets(&self, arguments: &Value, settings: &Settings) -> Result<Facets, Reason> {
        let names = names_of(&settings.files);
        let work = (self.work)(&parse(arguments)?)?;
        let action =
            Actions::built_in().parse(work.action).map_err(|error| Reason::internal(error.to_string()))?;
        let (profile, out) = (work.profile(), work.out.clone());
        let commands = self.commands(work, Path::new("/"), &names, &nothing())?;
        let stages: Vec<Stage> = commands.before.into_iter().chain(commands.stages).collect();
        // What stands in a message is no host that anybody reaches.
        // Nor are the words of it the caller's: which program they start is known.
        let programs = stages.iter().map(|stage| Command::named(&stage.command)).collect();
        let inside = Facets {
            hosts: Vec::new(),
            commands: programs,
            ..facets_of(profile, action, &commands.directory, &stages)
        };
        Ok(match out {
            Some((target, egress)) => {
                Facets { hosts: vec![target], egress, safety: SafetyClass::Network, ..inside }
            }
            None => inside,
        })
    }

    fn seal<'a>(
        &'a self,
        arguments: &'a Canonical,
        workspace: &'a Path,
        at: &'a Surroundings,
    ) -> Pin<Box<dyn Future<Output = Result<Sealed, Reason>> + Send + 'a>> {
        Box::pin(async move {
            let work = (self.work)(&parse(arguments.value())?)?;
            // Hidden names are none that the call was given.
            self.commands(work, workspace, at.names(), &nothing())?.seal(workspace, at).await
        })
    }

    fn get_ready(&self, grant: &Grant, arguments: &Canonical, at: &Surroundings) -> Option<Ready> {
        let (_, commands) = self.granted(grant, arguments, at).ok()?;
        commands.get_ready(grant, at)
    }

    fn is_unnoticed(&self, grant: &Grant) -> bool {
        only_looks(grant)
    }

    fn run<'a>(
        &'a self,
        grant: Grant,
        arguments: &'a Canonical,
        at: &'a Surroundings,
        cancel: CancellationToken,
    ) -> Pin<Box<dyn Future<Output = Ran> + Send + 'a>> {
        Box::pin(async move {
            let (input, commands) = match self.granted(&grant, arguments, at) {
                Ok(granted) => granted,
                Err(reason) => return Ran::failed(reason, RunFacts::default()),
            };
            let used = commands.git;
            match commands.run(&grant, at, &cancel).await {
                Ok(ended) => self.answer(&input, used, ended),
                Err(reason) => Ran::failed(reason, RunFacts::default()),
            }
        })
    }
}

impl<In: DeserializeOwned + Send + Sync, Out: Serialize> Built<In, Out> {
    fn granted(
        &self,
        grant: &Grant,
        arguments: &Canonical,
        at: &Surroundings,
    ) -> Result<(In, Commands), Reason> {
        check_grant(grant, &self.contract, arguments, at)?;
        let input = parse(arguments.value())?;
        let commands = self.commands((self.work)(&input)?, grant.workspace(), at.names(), at.names())?;
        Ok((input, commands))
    }

    fn commands(&self, work: Work, root: &Path, names: &Names, left_out: &Names) -> Result<Commands, Reason> {
        let profile = work.profile();
        let directory = Beneath::parse(work.repository.as_deref().unwrap_or("."))?;
        let guard = Guard { names, root };
        for path in
            [Beneath::parse(".")].into_iter().chain(work.paths.iter().map(|path| Beneath::parse(path)))
        {
            let path = directory.path().join(path?.path());
            if let Some(guarded) = guard.against_reading(&path) {
                return Err(guarded.reason(&path.to_string_lossy()));
            }
        }
        let stage = |line: Line| line.into_stage(&directory, &guard, left_out);
        Ok(Commands {
            profile,
            directory: directory.text(),
            before: work.before.into_iter().map(stage).collect::<Result<_, Reason>>()?,
            stages: vec![work.line.into_stage(&directory, &guard, left_out)?],
            git: Some(work.used),
            login: work.login,
            variables: [("LC_ALL".to_owned(), "C.UTF-8".to_owned())].into(),
            timeout: self.contract.timeout(),
        })
    }

    fn answer(&self, input: &In, used: Option<GitUse>, mut ended: Ended) -> Ran {
        let read = match ended.failure.take() {
            Some(reason) => Err(why_not_logged_in(used, &ended).unwrap_or(reason)),
            None => ended.whole().and_then(|code| match code {
                0 => (self.read)(input, &ended.stdout),
                code => Err(why_not_logged_in(used, &ended)
                    .unwrap_or_else(|| Reason::tool_failed(format!("git ended with exit code {code}")))),
            }),
        };
        let read = read.and_then(|answer| {
            let structured = serde_json::to_value(&answer.structured);
            Ok((structured.map_err(|error| Reason::bad_output(error.to_string()))?, answer))
        });
        match read {
            Ok((structured, mut answer)) => {
                // What git warns of while it looks may change what its answer means.
                if used == Some(GitUse::Look) && !ended.stderr.is_empty() {
                    let warned = cut(&ended.stderr, ended.stderr_bytes, SHOWN / 8, "stderr");
                    answer.content.push_str(&format!("\nstderr:\n{}", warned.text));
                    answer.findings.absorb(warned.findings);
                }
                let output = Output {
                    content: answer.content,
                    structured,
                    artifacts: answer.artifacts,
                    ..Output::default()
                };
                Ran { output, findings: answer.findings, facts: ended.facts, failure: None }
            }
            Err(reason) => {
                ended.failure = Some(reason);
                let shown = ended.shown();
                let content = ended.content(&shown);
                ended.answer(Output { content, is_error: true, ..Output::default() }, shown)
            }
        }
    }
}

/// Why ssh did not get as far as git, in words that say who can mend it.
fn why_not_logged_in(used: Option<GitUse>, ended: &Ended) -> Option<Reason> {
    if used.and_then(GitUse::transport) != Some(Transport::Ssh) {
        return None;
    }
    let said = String::from_utf8_lossy(&ended.stderr);
    if said.contains("Host key verification failed") {
        let why = "the host's key is none that is known for it, so it was not spoken to";
        return Some(Reason::host_not_allowed(why).with_hint(
            "if the host has changed its key, whoever runs this gate can say so in `egress.known_hosts`",
        ));
    }
    said.contains("Permission denied (").then(|| {
        Reason::tool_failed("the host did not let us log in").with_hint(
            "whoever runs this gate can give it a key for the host: `ssh_key: true` in `egress.credentials`",
        )
    })
}

fn parse<In: DeserializeOwned>(arguments: &Value) -> Result<In, Reason> {
    In::deserialize(arguments).map_err(|error| Reason::bad_arguments(error.to_string()))
}

/// No names.
fn nothing() -> Names {
    Names { hidden: Vec::new(), protected: Vec::new() }
}

/// The kinds of a verb that looks or changes, by the word that makes it change.
fn kinds_of(words: &[(&'static str, Profile)]) -> Vec<CallKind> {
    let kind = |(word, profile): &(&'static str, Profile)| {
        let (safety, egress, _) = danger_of(*profile);
        CallKind { word, safety, egress }
    };
    words.iter().map(kind).collect()
}

#[cfg(test)]
mod tests;
