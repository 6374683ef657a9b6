//! One attempt to reach somebody, through a gate or without one.

use std::path::Path;

use contract::{CallResult, Private, Reach, RunFacts};
use policy::{Agent, EgressSettings, Settings};
use serde_json::{Value, json};
use store::Vote;

use crate::Try;
use crate::case::Effect;
use crate::gate::stand::{Ending, Gate, Stand, settings_of};
use crate::place::token;
use crate::world::{NAME_SERVER, Visit, World, serve_beneath};

/// What stands for the text that is looked for at the target.
const TOKEN: &str = "TOKEN";

/// An attempt, with a text of its own by which it is known wherever it comes.
pub(super) struct Trip<'a> {
    stand: &'a Stand<'a>,
    world: &'static World,
    pub(super) token: String,
}

impl<'a> Trip<'a> {
    pub(super) fn begin(stand: &'a Stand<'a>) -> Try<Trip<'a>> {
        let world = World::get()?;
        stand.put("ca.crt", world.authority())?;
        Ok(Trip { stand, world, token: token() })
    }

    /// Has a program of the host try, with nothing in its way.
    pub(super) fn bare(&self, program: &str, arguments: &[&str]) -> Try<String> {
        let arguments = self.filled(arguments);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        self.stand.bare(program, &arguments, &self.stand.workspace)
    }

    /// Has the same program try behind walls, with a grant for these places.
    pub(super) fn guarded(&self, allow: &[&str], program: &str, arguments: &[&str]) -> Try<Guarded> {
        self.with(granting(allow, Private::none())?, program, arguments)
    }

    /// The same with settings of its own.
    pub(super) fn with(&self, egress: EgressSettings, program: &str, arguments: &[&str]) -> Try<Guarded> {
        let gate = self.stand.gate(settings(egress))?;
        self.call(&gate, program, arguments)
    }

    /// The same at a gate that is open.
    pub(super) fn call(&self, gate: &Gate<'_>, program: &str, arguments: &[&str]) -> Try<Guarded> {
        let arguments = self.filled(arguments);
        let asked = json!({ "command": program, "args": arguments, "profile": "networked" });
        // It is asked about, whatever the settings say; somebody is careless.
        let (_, view) = gate.waits("shell", asked.clone())?;
        gate.answer(view.id.as_str(), Vote::Approve)?;
        let result = gate.call("shell", asked, Ending::Settled)?;
        let facts = gate.facts(&result)?.ok_or_else(|| format!("it did not run: {}", result.content))?;
        Ok(Guarded { result, facts, is_weakened: self.stand.without.is_some() })
    }

    /// Has a tool try, with a grant for these places. `TOKEN` stands for the text wherever it is in the arguments.
    pub(super) fn ask(
        &self,
        allow: &[&str],
        tool: &str,
        arguments: &Value,
        ending: Ending,
    ) -> Try<CallResult> {
        self.ask_with(granting(allow, Private::none())?, tool, arguments, ending)
    }

    /// The same with settings of its own.
    pub(super) fn ask_with(
        &self,
        egress: EgressSettings,
        tool: &str,
        arguments: &Value,
        ending: Ending,
    ) -> Try<CallResult> {
        let gate = self.stand.gate(settings(egress))?;
        let filled = arguments.to_string().replace(TOKEN, &self.token);
        let filled: Value = serde_json::from_str(&filled)?;
        let result = gate.send(gate.request(tool, filled.clone())?)?;
        match &result.approval {
            None => {
                gate.expect(&result.call_id, ending);
                Ok(result)
            }
            // Somebody is careless.
            Some(view) => {
                gate.answer(view.id.as_str(), Vote::Approve)?;
                gate.call(tool, filled, ending)
            }
        }
    }

    /// Those who were reached by this attempt.
    pub(super) fn reached(&self) -> Vec<Visit> {
        self.world.visits_with(&self.token)
    }

    /// Through if somebody was reached who counts.
    pub(super) fn judged(&self, counts: impl Fn(&Visit) -> bool) -> Effect {
        let reached: Vec<Visit> = self.reached().into_iter().filter(counts).collect();
        Effect::through_if(!reached.is_empty(), format!("{reached:?}"))
    }

    /// Whether a question for this attempt's own name left the sandbox.
    pub(super) fn asked(&self) -> Effect {
        Effect::through_if(self.world.was_asked_for(&self.token), "the name server was asked")
    }

    /// Has every host of the world serve a repository of this attempt's own: one file, and what is prepared besides.
    pub(super) fn serve(&self, prepare: fn(&Trip<'_>, &Path) -> Try<()>) -> Try<()> {
        self.stand.place.file("made/a.txt", "from afar\n")?;
        let at = self.stand.place.path("made");
        self.git(&at, &["init", "-q", "-b", "main"])?;
        prepare(self, &at)?;
        // There may be no `.gitmodules`, and then git adds nothing of the two.
        self.git(&at, &["add", "a.txt", ".gitmodules"])?;
        self.git(&at, &["add", "a.txt"])?;
        self.git(&at, &["commit", "-qm", "from afar"])?;
        let served = self.stand.place.folder("served")?;
        self.git(&served, &["clone", "-q", "--bare", "../made", &self.token])?;
        self.git(&served.join(&self.token), &["config", "http.receivepack", "true"])?;
        serve_beneath(&self.token, served);
        Ok(())
    }

    /// Whether that repository has a branch.
    pub(super) fn has_branch(&self, name: &str) -> Try<bool> {
        let at = self.stand.place.path("served").join(&self.token);
        Ok(self.stand.bare("git", &["for-each-ref"], &at)?.contains(&format!("refs/heads/{name}")))
    }

    /// git as a person runs it.
    pub(super) fn git(&self, at: &Path, words: &[&str]) -> Try<()> {
        let who = ["-c", "user.name=me", "-c", "user.email=me@example.com"];
        self.stand.bare("git", &[&who[..], words].concat(), at)?;
        Ok(())
    }

    /// Puts a program in Python into the workspace.
    pub(super) fn script(&self, text: &str) -> Try<&'static str> {
        self.stand.put("attack.py", text)?;
        Ok("attack.py")
    }

    fn filled(&self, arguments: &[&str]) -> Vec<String> {
        arguments.iter().map(|argument| argument.replace(TOKEN, &self.token)).collect()
    }
}

/// What came of an attempt behind walls.
pub(super) struct Guarded {
    pub(super) result: CallResult,
    pub(super) facts: RunFacts,
    /// Then it need not be refused.
    is_weakened: bool,
}

impl Guarded {
    /// The receipt has to say that this place was refused, and why.
    pub(super) fn refused(self, place: &str, code: &str) -> Try<Guarded> {
        let is_it =
            |attempt: &contract::Attempt| attempt.place == place && attempt.refused.as_deref() == Some(code);
        if self.is_weakened || self.facts.attempts.iter().any(is_it) {
            return Ok(self);
        }
        let said = &self.result.content;
        Err(format!("no `{code}` for `{place}` among {:?} ({said})", self.facts.attempts).into())
    }

    /// What the program wrote has to hold this, or it has not tried.
    pub(super) fn says(self, text: &str) -> Try<Guarded> {
        if self.result.content.contains(text) {
            return Ok(self);
        }
        Err(format!("it does not say `{text}`: {}", self.result.content).into())
    }
}

/// A grant for these places and no other, at the world's name server.
pub(super) fn granting(allow: &[&str], private: Private) -> Try<EgressSettings> {
    let reach = |text: &&str| Reach::parse(text).map_err(|error| error.to_string());
    Ok(EgressSettings {
        allow: Some(allow.iter().map(reach).collect::<Result<_, _>>()?),
        private,
        nameservers: vec![NAME_SERVER.parse()?],
        ..EgressSettings::default()
    })
}

/// The usual agent, and these settings.
pub(super) fn settings(egress: EgressSettings) -> Settings {
    Settings { egress, ..settings_of(Agent::default()) }
}
