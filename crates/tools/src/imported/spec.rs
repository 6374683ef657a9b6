//! What a file says of one tool, whatever kind of file, and the tool that it makes.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use contract::{
    Action, Actions, Canonical, Category, Contract, CostTier, Definition, EgressClass, Idempotency, Origin,
    Output, Profile, Reason, RunFacts, SafetyClass, SourceName, ToolName, TrustLabel, chain,
};
use policy::{Facets, Grant, Settings};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::cleaned;
use super::request::Request;
use super::template::{Argument, Kind, Part, fill_words, is_argument_name};
use crate::guides::Guide;
use crate::inside::Stage;
use crate::operands::Sealed;
use crate::path::{Guard, names_of};
use crate::pipeline::{Commands, danger_of, facets_of};
use crate::shell::unlisted;
use crate::surroundings::Surroundings;
use crate::tool::{Ran, Tool, check_grant};

/// How much a file says that its tool may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PermissionLevel {
    Read,
    Write,
    Network,
}

impl PermissionLevel {
    /// What is more dangerous than these does not come from a file.
    pub(super) fn parse(text: &str) -> Result<PermissionLevel, String> {
        match text {
            "read" | "read_only" | "readonly" => Ok(PermissionLevel::Read),
            "write" => Ok(PermissionLevel::Write),
            "network" => Ok(PermissionLevel::Network),
            other => Err(format!(
                "the permission level `{}` is not one that a file can give: there are `read`, `write` and `network`",
                contract::show_hidden(other)
            )),
        }
    }
}

/// One tool as a file has it.
#[derive(Clone, Debug)]
pub(super) struct Spec {
    pub(super) name: String,
    pub(super) title: Option<String>,
    pub(super) description: String,
    pub(super) level: PermissionLevel,
    pub(super) arguments: Vec<Argument>,
    pub(super) call: Call,
    pub(super) failure_modes: Vec<String>,
    pub(super) timeout_seconds: u64,
    /// What there is to read about it.
    pub(super) guide: Option<String>,
    /// All that the file says of it.
    pub(super) original: Value,
}

/// What a call of it does.
#[derive(Clone, Debug)]
pub(super) enum Call {
    Command { profile: Profile, words: Vec<Part> },
    Http(Box<Request>),
}

/// How long a call may take where the file does not say, and at most.
pub(super) const USUAL_SECONDS: u64 = 30;
const MOST_SECONDS: u64 = 600;

/// Programs that take a program for an argument.
const INTERPRETERS: &[&str] = &[
    "awk", "bash", "bun", "busybox", "dash", "deno", "env", "find", "fish", "gawk", "ksh", "lua", "make",
    "mawk", "nice", "node", "nohup", "perl", "php", "python", "python3", "R", "ruby", "sed", "sh", "sqlite3",
    "strace", "time", "timeout", "ts-node", "tsx", "watch", "xargs", "zsh",
];

/// What a command gives.
#[derive(Serialize, JsonSchema)]
struct CommandGives {
    /// 0 if it went well.
    exit_code: i32,
    /// What it wrote, as text.
    stdout: String,
}

impl Spec {
    /// The tool, if it is one.
    pub(super) fn build(self, source: &SourceName, settings: &Settings) -> Result<Arc<dyn Tool>, String> {
        ToolName::parse(&self.name).map_err(|error| error.to_string())?;
        self.check_arguments()?;
        if self.timeout_seconds == 0 || self.timeout_seconds > MOST_SECONDS {
            return Err(format!("`timeout_seconds` is from 1 to {MOST_SECONDS}"));
        }
        let (safety, egress, category, action, output) = match &self.call {
            Call::Command { profile, words } => {
                check_command(*profile, words, self.level, &self.arguments)?;
                // Classed up: who wrote it may lie about what the program does.
                let safety = danger_of(*profile).0.max(SafetyClass::Write);
                let action = format!("exec:{profile}");
                let output = Definition::of::<(), CommandGives>("x").output;
                (safety, EgressClass::None, Category::Terminal, action, output)
            }
            Call::Http(request) => {
                request.check(self.level, &self.arguments)?;
                let (egress, action) = request.class();
                (SafetyClass::Network, egress, Category::Web, action.to_owned(), Request::output())
            }
        };
        let definition = Definition {
            name: self.name.clone(),
            title: self.title.as_deref().map_or_else(|| self.name.clone(), cleaned::title),
            description: cleaned::description(&self.description),
            category,
            action: action.clone(),
            safety,
            egress,
            idempotency: Idempotency::None,
            cost: CostTier::Low,
            input: schema_of(&self.arguments)?,
            output,
            examples: Vec::new(),
            failure_modes: self.failure_modes.iter().map(|mode| cleaned::about(mode)).collect(),
            timeout_seconds: self.timeout_seconds,
            origin: Some(Origin { source: source.clone(), original: self.original.clone() }),
        };
        let contract =
            Contract::with_trust(definition, TrustLabel::Imported).map_err(|error| chain(&error))?;
        let action = Actions::built_in().parse(&action).map_err(|error| error.to_string())?;
        let http = settings.egress.http.clone();
        Ok(Arc::new(Declared { contract, action, spec: self, http }))
    }

    fn check_arguments(&self) -> Result<(), String> {
        let mut names = BTreeSet::new();
        for argument in &self.arguments {
            let name = contract::show_hidden(&argument.name);
            if !is_argument_name(&argument.name) {
                return Err(format!("`{name}` cannot be an argument: small letters, digits and `_`"));
            }
            if !names.insert(&argument.name) {
                return Err(format!("the argument `{name}` is there twice"));
            }
            if !argument.choices.is_empty() && argument.kind != Kind::Text {
                return Err(format!("the argument `{name}` has choices, so it is a text"));
            }
        }
        let used: BTreeSet<&str> = match &self.call {
            Call::Command { words, .. } => words.iter().filter_map(Part::argument).collect(),
            Call::Http(request) => request.arguments(),
        };
        if let Some(unknown) = used.iter().find(|name| !names.iter().any(|known| known == *name)) {
            return Err(format!("`{{{unknown}}}` is no argument of the tool"));
        }
        // What goes nowhere would be asked of people and then left out.
        match self.arguments.iter().find(|argument| !used.contains(argument.name.as_str())) {
            Some(unused) => Err(format!("the argument `{}` is used nowhere", unused.name)),
            None => Ok(()),
        }
    }
}

fn check_command(
    profile: Profile,
    words: &[Part],
    level: PermissionLevel,
    arguments: &[Argument],
) -> Result<(), String> {
    let needed = match profile {
        Profile::Inspect => PermissionLevel::Read,
        Profile::Build => PermissionLevel::Write,
        Profile::Mutate | Profile::Networked => {
            return Err(format!(
                "the profile `{profile}` is not one that a file can give: there are `inspect` and `build`"
            ));
        }
    };
    if level < needed || level == PermissionLevel::Network {
        return Err(format!("the permission level does not fit the profile `{profile}`"));
    }
    let Some((Part::Literal(program), rest)) = words.split_first() else {
        return Err("a command begins with the name of a program".to_owned());
    };
    if program.contains('/') {
        return Err(format!("`{program}`: a program is named without a path"));
    }
    if program == "git" {
        return Err("`git` obeys what is in a repository: the tools `git.…` are made for that".to_owned());
    }
    if let Some(reason) = unlisted(program, profile) {
        return Err(reason.message);
    }
    if let Some(json) = arguments.iter().find(|argument| matches!(argument.kind, Kind::Json(_))) {
        return Err(format!("`{}` is no single word", json.name));
    }
    // ATTACK(template-program): what a caller gives must not be what an interpreter runs.
    if INTERPRETERS.contains(&program.as_str()) {
        let mut has_program = false;
        for word in rest {
            match word {
                Part::Literal(text) => has_program = !text.starts_with('-'),
                Part::Argument(name) | Part::Option { argument: name, .. } if !has_program => {
                    return Err(format!(
                        "`{{{name}}}` would be a program for `{program}`, or an option's value: give that yourself"
                    ));
                }
                Part::Argument(_) | Part::Option { .. } => {}
            }
        }
    }
    Ok(())
}

fn schema_of(arguments: &[Argument]) -> Result<Value, String> {
    let mut properties = Map::new();
    for argument in arguments {
        let mut schema = match &argument.kind {
            Kind::Text | Kind::Path => json!({ "type": "string" }),
            Kind::Integer => json!({ "type": "integer" }),
            Kind::Number => json!({ "type": "number" }),
            Kind::Boolean => json!({ "type": "boolean" }),
            Kind::Json(schema) => cleaned::schema(schema)?,
        };
        if let Some(members) = schema.as_object_mut() {
            if !argument.choices.is_empty() {
                argument.choices.iter().try_for_each(|choice| cleaned::word(choice))?;
                members.insert("enum".to_owned(), json!(argument.choices));
            }
            if !argument.description.is_empty() {
                members.insert("description".to_owned(), json!(cleaned::about(&argument.description)));
            }
        }
        properties.insert(argument.name.clone(), schema);
    }
    let required: Vec<&str> = arguments
        .iter()
        .filter(|argument| argument.required)
        .map(|argument| argument.name.as_str())
        .collect();
    Ok(
        json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false }),
    )
}

/// A tool that a file declares.
struct Declared {
    contract: Contract,
    action: Action,
    spec: Spec,
    http: policy::HttpSettings,
}

impl Tool for Declared {
    fn contract(&self) -> &Contract {
        &self.contract
    }

    fn guides(&self) -> Vec<Guide> {
        let guide = |text: &String| Guide {
            name: Cow::Borrowed("guide"),
            text: Cow::Owned(format!(
                "[from an imported file, whose author nobody here vouches for]\n\n{}",
                cleaned::guide(text)
            )),
        };
        self.spec.guide.iter().map(guide).collect()
    }

    fn facets(&self, arguments: &Value, settings: &Settings) -> Result<Facets, Reason> {
        match &self.spec.call {
            Call::Command { profile, .. } => {
                let names = names_of(&settings.files);
                let stage = self.stage(arguments, &Guard { names: &names, root: Path::new("/") })?;
                let definition = self.contract.definition();
                Ok(Facets {
                    safety: definition.safety,
                    egress: definition.egress,
                    ..facets_of(*profile, self.action.clone(), ".", &[stage])
                })
            }
            Call::Http(request) => {
                let asked = request.fill(arguments, &settings.egress.http, self.spec.timeout_seconds)?;
                let (egress, action) = request.class();
                asked.facets(action, egress)
            }
        }
    }

    fn seal<'a>(
        &'a self,
        arguments: &'a Canonical,
        workspace: &'a Path,
        at: &'a Surroundings,
    ) -> Pin<Box<dyn Future<Output = Result<Sealed, Reason>> + Send + 'a>> {
        Box::pin(async move {
            match self.commands(workspace, arguments, at)? {
                Some(commands) => commands.seal(workspace, at).await,
                None => Ok(Sealed::default()),
            }
        })
    }

    fn run<'a>(
        &'a self,
        grant: Grant,
        arguments: &'a Canonical,
        at: &'a Surroundings,
        cancel: CancellationToken,
    ) -> Pin<Box<dyn Future<Output = Ran> + Send + 'a>> {
        Box::pin(async move {
            match self.try_run(&grant, arguments, at, &cancel).await {
                Ok(ran) => ran,
                Err(reason) => Ran::failed(reason, RunFacts::default()),
            }
        })
    }
}

impl Declared {
    async fn try_run(
        &self,
        grant: &Grant,
        arguments: &Canonical,
        at: &Surroundings,
        cancel: &CancellationToken,
    ) -> Result<Ran, Reason> {
        check_grant(grant, &self.contract, arguments, at)?;
        if let Some(commands) = self.commands(grant.workspace(), arguments, at)? {
            let mut ended = commands.run(grant, at, cancel).await?;
            let gives = match ended.failure.is_none().then(|| ended.whole()) {
                Some(Ok(exit_code)) => {
                    let stdout = String::from_utf8_lossy(&ended.stdout).into_owned();
                    json!(CommandGives { exit_code, stdout })
                }
                Some(Err(reason)) => {
                    ended.failure = Some(reason);
                    Value::Null
                }
                None => Value::Null,
            };
            let shown = ended.shown();
            let content = ended.content(&shown);
            let is_error = gives.get("exit_code") != Some(&json!(0));
            return Ok(
                ended.answer(Output { content, structured: gives, is_error, ..Output::default() }, shown)
            );
        }
        let Call::Http(request) = &self.spec.call else {
            return Err(Reason::internal("there is nothing to run"));
        };
        let asked = request.fill(arguments.value(), &self.http, self.spec.timeout_seconds)?;
        Ok(crate::http::heard(asked.ask(grant, at, cancel).await))
    }

    /// The commands of a call, if it is one of those.
    fn commands(
        &self,
        root: &Path,
        arguments: &Canonical,
        at: &Surroundings,
    ) -> Result<Option<Commands>, Reason> {
        let Call::Command { profile, .. } = &self.spec.call else { return Ok(None) };
        let stage = self.stage(arguments.value(), &Guard { names: at.names(), root })?;
        Ok(Some(Commands {
            profile: *profile,
            directory: ".".to_owned(),
            before: Vec::new(),
            stages: vec![stage],
            git: None,
            login: None,
            variables: [("LC_ALL".to_owned(), "C.UTF-8".to_owned())].into(),
            timeout: self.contract.timeout(),
        }))
    }

    fn stage(&self, arguments: &Value, guard: &Guard<'_>) -> Result<Stage, Reason> {
        let Call::Command { profile, words } = &self.spec.call else {
            return Err(Reason::internal("it runs no command"));
        };
        let writes = *profile != Profile::Inspect;
        let mut words = fill_words(words, &self.spec.arguments, arguments, writes, guard)?.into_iter();
        let command = words.next().ok_or_else(|| Reason::internal("it names no program"))?;
        Ok(Stage { command, arguments: words.collect() })
    }
}
