//! A tool that is one command, or a pipeline, behind walls: most tools need no more than this.
//!
//! Its author says which words are run and how the output is read, by two functions that touch nothing. What the
//! command may do is what the walls of its profile permit: no capability comes from here.
//!
//! # Invariants
//! - No shell reads the words. Those of the code are `'static`; those of a caller are never the program, and never an
//!   option.
//! - A path from a caller is parsed and guarded as those of the `fs` tools are.
//! - A tool cannot say that it is more harmless than its profile.

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use clean::{Findings, clean_value};
use contract::{
    Action, Actions, Canonical, Contract, ContractError, Definition, Output, Profile, Reason, RunFacts,
};
use policy::{Facets, Grant, Settings, WorkspaceAccess};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::inside::Stage;
use crate::operands::Sealed;
use crate::path::{Beneath, Guard, names_of, shown};
use crate::pipeline::{Commands, Ended, MAX_STAGES, Shown, danger_of, facets_of};
use crate::surroundings::Surroundings;
use crate::tool::{Ran, Tool, check_grant};

/// A tool that is one command, or a pipeline, behind walls.
pub struct CommandTool<In, Out> {
    /// What it promises, with the schemas of `In` and `Out`: `Definition::of::<In, Out>("…")`.
    pub definition: Definition,
    /// The walls it runs behind.
    pub profile: Profile,
    /// The words that are run for a call. Pure.
    pub command: fn(&In) -> CommandLine,
    /// What the command's output means. Pure; what it cannot read is [`Reason::bad_output`].
    pub read: fn(&CommandOutput) -> Result<Out, Reason>,
}

impl<In, Out> CommandTool<In, Out>
where
    In: DeserializeOwned + 'static,
    Out: Serialize + 'static,
{
    /// The tool, if its definition is a contract and is not more harmless than its profile.
    pub fn build(self) -> Result<Arc<dyn Tool>, ContractError> {
        let CommandTool { definition, profile, command, read } = self;
        refuse_understatement(&definition, profile)?;
        let tool = definition.name.clone();
        let action = Actions::built_in()
            .parse(&definition.action)
            .map_err(|source| ContractError::Action { tool, source })?;
        Ok(Arc::new(Built { contract: Contract::internal(definition)?, action, profile, command, read }))
    }
}

/// Policy goes by what a definition says, so it must not say less than the walls permit.
fn refuse_understatement(definition: &Definition, profile: Profile) -> Result<(), ContractError> {
    let (safety, egress, access) = danger_of(profile);
    let looks = definition.action.ends_with(":read")
        || definition.action.ends_with(":query")
        || definition.action.ends_with(":inspect");
    let declared = if definition.safety < safety {
        definition.safety.to_string()
    } else if definition.egress < egress {
        format!("egress {}", definition.egress)
    } else if access == WorkspaceAccess::Write && looks {
        definition.action.clone()
    } else {
        return Ok(());
    };
    Err(ContractError::Understated { tool: definition.name.clone(), declared, profile })
}

/// The words of a command, or of a pipeline of commands.
///
/// ```
/// # use tools::CommandLine;
/// # let (pattern, path) = ("-x", "src/main.rs");
/// // grep -n -- PATTERN ./PATH | head -n 20
/// CommandLine::of("grep").words(["-n"]).end_of_options().value(pattern).path(path).pipe("head").words(["-n", "20"]);
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct CommandLine {
    stages: Vec<Stage>,
    options: Options,
    paths: Vec<(Beneath, Purpose)>,
    /// What is wrong, if anything is: the first.
    problem: Option<Reason>,
}

/// Whether the program may still take a word for an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Options {
    Open,
    Ended,
}

/// What a path is named for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Read,
    Change,
}

impl CommandLine {
    /// A program by its name, which is looked up where the system and the profile's toolchains keep theirs.
    pub fn of(program: &'static str) -> CommandLine {
        CommandLine { stages: Vec::new(), options: Options::Open, paths: Vec::new(), problem: None }
            .pipe(program)
    }

    /// One more program, which reads what the one before wrote.
    pub fn pipe(mut self, program: &'static str) -> CommandLine {
        if program.is_empty() || program.starts_with('-') || program.contains(['/', '\0', ' ']) {
            return self.refuse(Reason::internal(format!("`{program}` is not the name of a program")));
        }
        if self.stages.len() >= MAX_STAGES {
            return self.refuse(Reason::internal("a pipeline has at most 16 commands"));
        }
        self.options = Options::Open;
        self.stages.push(Stage { command: program.to_owned(), arguments: Vec::new() });
        self
    }

    /// Words of the tool itself, exactly as they are. They are `'static` so that none of them comes from a caller.
    pub fn words(self, words: impl IntoIterator<Item = &'static str>) -> CommandLine {
        words.into_iter().fold(self, |line, word| line.push(word.to_owned()))
    }

    /// `--`: what follows is no option. Only for programs that take it so; most do, `find` and `echo` do not.
    pub fn end_of_options(mut self) -> CommandLine {
        self.options = Options::Ended;
        self.push("--".to_owned())
    }

    /// A word from the caller. It cannot become an option: one that looks like it is refused, unless options have ended.
    pub fn value(self, value: &str) -> CommandLine {
        // ATTACK(argument-as-option): `--output=…` or `-exec` from a caller would be the program's to obey.
        if self.options == Options::Open && value.starts_with('-') {
            let why = format!("`{}` begins with `-`, and would be taken for an option", shown(value));
            return self.refuse(Reason::bad_arguments(why));
        }
        self.push(value.to_owned())
    }

    /// A long option of the tool with a value from the caller, in one word: `--max-count=5`.
    pub fn option(self, name: &'static str, value: &str) -> CommandLine {
        if !name.starts_with("--") || name.len() < 3 || name.contains('=') || self.options == Options::Ended {
            return self.refuse(Reason::internal(format!("`{name}` cannot be an option here")));
        }
        self.push(format!("{name}={value}"))
    }

    /// A path from the caller, to be read: beneath the workspace, not hidden. It is given as `./…`, which no program
    /// takes for an option.
    pub fn path(self, path: &str) -> CommandLine {
        self.push_path(path, Purpose::Read)
    }

    /// A path from the caller, to be written or removed: beneath the workspace, neither hidden nor protected.
    pub fn path_to_change(self, path: &str) -> CommandLine {
        self.push_path(path, Purpose::Change)
    }

    fn push_path(mut self, path: &str, purpose: Purpose) -> CommandLine {
        match Beneath::parse(path) {
            Ok(beneath) => {
                let word =
                    if beneath.names().is_empty() { ".".to_owned() } else { format!("./{}", beneath.text()) };
                self.paths.push((beneath, purpose));
                self.push(word)
            }
            Err(reason) => self.refuse(reason),
        }
    }

    fn push(mut self, word: String) -> CommandLine {
        if word.contains('\0') {
            return self.refuse(Reason::bad_arguments("an argument holds a NUL character"));
        }
        if let Some(stage) = self.stages.last_mut() {
            stage.arguments.push(word);
        }
        self
    }

    fn refuse(mut self, reason: Reason) -> CommandLine {
        self.problem.get_or_insert(reason);
        self
    }

    /// The same, if nothing is wrong with it and no path of it is guarded.
    fn checked(self, guard: &Guard<'_>) -> Result<CommandLine, Reason> {
        if let Some(reason) = self.problem {
            return Err(reason);
        }
        for (path, purpose) in &self.paths {
            let guarded = match purpose {
                Purpose::Read => guard.against_reading(&path.path()),
                Purpose::Change => guard.against_writing(&path.path()),
            };
            if let Some(guarded) = guarded {
                return Err(guarded.reason(&path.text()));
            }
        }
        Ok(self)
    }
}

/// What a command that came to its end has given. Written by the command, so believed in nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandOutput {
    /// 0 if every command went well, else that of the last one that did not.
    pub exit_code: i32,
    /// All that the last command wrote.
    pub stdout: Vec<u8>,
    /// What the commands complained, as much as was kept.
    pub stderr: Vec<u8>,
}

impl CommandOutput {
    /// What it wrote, as text, whatever its exit code.
    pub fn text(&self) -> Result<&str, Reason> {
        str::from_utf8(&self.stdout)
            .map_err(|_| Reason::bad_output("the command wrote what is not UTF-8 text"))
    }

    /// What it wrote, as text, if its exit code is 0. The caller is shown what it complained in any case.
    pub fn success(&self) -> Result<&str, Reason> {
        match self.exit_code {
            0 => self.text(),
            code => Err(Reason::tool_failed(format!("the command ended with exit code {code}"))),
        }
    }
}

struct Built<In, Out> {
    contract: Contract,
    action: Action,
    profile: Profile,
    command: fn(&In) -> CommandLine,
    read: fn(&CommandOutput) -> Result<Out, Reason>,
}

impl<In: DeserializeOwned, Out: Serialize> Tool for Built<In, Out> {
    fn contract(&self) -> &Contract {
        &self.contract
    }

    fn facets(&self, arguments: &Value, settings: &Settings) -> Result<Facets, Reason> {
        let names = names_of(&settings.files);
        let line = self.line(arguments, &Guard { names: &names, root: Path::new("/") })?;
        let definition = self.contract.definition();
        // As its contract says, which is not less than its profile.
        Ok(Facets {
            safety: definition.safety,
            egress: definition.egress,
            ..facets_of(self.profile, self.action.clone(), ".", &line.stages)
        })
    }

    fn seal<'a>(
        &'a self,
        arguments: &'a Canonical,
        workspace: &'a Path,
        at: &'a Surroundings,
    ) -> Pin<Box<dyn Future<Output = Result<Sealed, Reason>> + Send + 'a>> {
        Box::pin(async move { self.commands_in(workspace, arguments, at)?.seal(workspace, at).await })
    }

    fn run<'a>(
        &'a self,
        grant: Grant,
        arguments: &'a Canonical,
        at: &'a Surroundings,
        cancel: CancellationToken,
    ) -> Pin<Box<dyn Future<Output = Ran> + Send + 'a>> {
        Box::pin(async move {
            let ended = match self.commands(&grant, arguments, at) {
                Ok(commands) => commands.run(&grant, at, &cancel).await,
                Err(reason) => Err(reason),
            };
            match ended {
                Ok(ended) => self.answer(ended),
                Err(reason) => Ran::failed(reason, RunFacts::default()),
            }
        })
    }
}

impl<In: DeserializeOwned, Out: Serialize> Built<In, Out> {
    fn line(&self, arguments: &Value, guard: &Guard<'_>) -> Result<CommandLine, Reason> {
        let input = In::deserialize(arguments).map_err(|error| Reason::bad_arguments(error.to_string()))?;
        (self.command)(&input).checked(guard)
    }

    fn commands(&self, grant: &Grant, arguments: &Canonical, at: &Surroundings) -> Result<Commands, Reason> {
        check_grant(grant, &self.contract, arguments, at)?;
        self.commands_in(grant.workspace(), arguments, at)
    }

    fn commands_in(&self, root: &Path, arguments: &Canonical, at: &Surroundings) -> Result<Commands, Reason> {
        let line = self.line(arguments.value(), &Guard { names: at.names(), root })?;
        Ok(Commands {
            profile: self.profile,
            directory: ".".to_owned(),
            before: Vec::new(),
            stages: line.stages,
            git: None,
            login: None,
            // So that what is written reads the same whatever language the host speaks.
            variables: [("LC_ALL".to_owned(), "C.UTF-8".to_owned())].into(),
            timeout: self.contract.timeout(),
        })
    }

    fn answer(&self, mut ended: Ended) -> Ran {
        let read = match ended.failure.take() {
            Some(reason) => Err(reason),
            None => self.read(&mut ended),
        };
        match read {
            Ok(structured) => {
                // Clean before it is written as JSON: what that spells out parts a credential for all to see.
                let content = clean_value(structured.clone(), &mut Findings::default()).to_string();
                // Of the streams nothing is shown.
                let shown = Shown { findings: Findings::default(), ..ended.shown() };
                ended.answer(Output { content, structured, ..Output::default() }, shown)
            }
            Err(reason) => {
                ended.failure = Some(reason);
                let shown = ended.shown();
                let content = ended.content(&shown);
                ended.answer(Output { content, is_error: true, ..Output::default() }, shown)
            }
        }
    }

    fn read(&self, ended: &mut Ended) -> Result<Value, Reason> {
        let exit_code = ended.whole()?;
        let output = CommandOutput {
            exit_code,
            stdout: std::mem::take(&mut ended.stdout),
            stderr: std::mem::take(&mut ended.stderr),
        };
        let read = (self.read)(&output);
        (ended.stdout, ended.stderr) = (output.stdout, output.stderr);
        serde_json::to_value(read?).map_err(|error| Reason::bad_output(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use contract::{EgressClass, SafetyClass};
    use jail::Names;
    use schemars::JsonSchema;
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Deserialize, JsonSchema)]
    struct In {
        word: String,
        path: String,
    }

    #[derive(Serialize, JsonSchema)]
    struct Out {
        count: u64,
    }

    fn grep(command: fn(&In) -> CommandLine) -> CommandTool<In, Out> {
        CommandTool {
            definition: Definition {
                action: "code:read".into(),
                safety: SafetyClass::Read,
                egress: EgressClass::None,
                ..Definition::of::<In, Out>("text.grep")
            },
            profile: Profile::Inspect,
            command,
            read: |_| Ok(Out { count: 0 }),
        }
    }

    fn of(command: fn(&In) -> CommandLine, word: &str, path: &str) -> Result<Facets, Reason> {
        let tool = grep(command).build().unwrap();
        tool.facets(&json!({ "word": word, "path": path }), &Settings::default())
    }

    fn words(line: CommandLine) -> Result<Vec<Vec<String>>, String> {
        let names = Names::default();
        let line = line.checked(&Guard { names: &names, root: Path::new("/") });
        let all = |stage: Stage| [vec![stage.command], stage.arguments].concat();
        line.map(|line| line.stages.into_iter().map(all).collect()).map_err(|reason| reason.code.to_string())
    }

    #[test]
    fn words_become_the_stages_of_a_pipeline_as_they_are() {
        let line = CommandLine::of("grep").words(["-n"]).option("--max-count", "5; id").value("a b $(c)");
        let line = line.path("src//./main.rs").pipe("wc").words(["-l"]);
        let grep = ["grep", "-n", "--max-count=5; id", "a b $(c)", "./src/main.rs"];
        assert_eq!(words(line).unwrap(), [grep.as_slice(), ["wc", "-l"].as_slice()]);
        assert_eq!(words(CommandLine::of("ls").path(".")).unwrap(), [["ls", "."]]);
    }

    #[test]
    fn a_word_from_a_caller_never_becomes_an_option() {
        let value = |word: &str| words(CommandLine::of("grep").value(word));
        for word in ["-r", "--include=*", "-", "--"] {
            assert_eq!(value(word).unwrap_err(), "bad_arguments", "{word}");
        }
        let ended = CommandLine::of("grep").end_of_options().value("-r").path("-rf");
        assert_eq!(words(ended).unwrap(), [["grep", "--", "-r", "./-rf"]]);
        let next = CommandLine::of("grep").end_of_options().pipe("wc").value("-r");
        assert_eq!(words(next).unwrap_err(), "bad_arguments", "each program has options of its own");
        assert_eq!(value("a\0b").unwrap_err(), "bad_arguments");
    }

    #[test]
    fn a_path_is_parsed_and_guarded_as_those_of_files_are() {
        let read = |path: &str| words(CommandLine::of("wc").path(path)).err();
        let change = |path: &str| words(CommandLine::of("touch").path_to_change(path)).err();
        for path in ["/etc/passwd", "..", "a/../../b"] {
            assert_eq!(read(path).as_deref(), Some("outside"), "{path}");
        }
        for path in [".env", "a/.ssh/config", "server.pem"] {
            assert_eq!(read(path).as_deref(), Some("protected"), "{path}");
        }
        assert_eq!(read("").as_deref(), Some("bad_arguments"));
        assert_eq!((read(".git/config"), change(".git/config").as_deref()), (None, Some("protected")));
    }

    #[test]
    fn a_program_is_a_name() {
        for program in ["", "-x", "./run", "/tmp/ls", "ls -l"] {
            assert_eq!(words(CommandLine::of("ls").pipe(program)).unwrap_err(), "internal", "{program}");
        }
        let option = |name| words(CommandLine::of("ls").option(name, "x")).err();
        assert_eq!((option("-x").as_deref(), option("--").as_deref()), (Some("internal"), Some("internal")));
        let long = (0..16).fold(CommandLine::of("cat"), |line, _| line.pipe("cat"));
        assert_eq!(words(long).unwrap_err(), "internal");
    }

    #[test]
    fn policy_is_told_what_the_definition_says_and_every_program_and_host() {
        let command: fn(&In) -> CommandLine =
            |input| CommandLine::of("grep").value(&input.word).path(&input.path).pipe("wc");
        let facets = of(command, "http://169.254.169.254/", "a").unwrap();
        assert_eq!((facets.action.as_str(), facets.safety), ("code:read", SafetyClass::Read));
        assert_eq!((facets.egress, facets.access), (EgressClass::None, WorkspaceAccess::Read));
        assert_eq!(facets.profile, Some(Profile::Inspect));
        let named: Vec<&str> = facets.commands.iter().map(|command| command.name.as_str()).collect();
        assert_eq!(
            (named, facets.hosts),
            (vec!["grep", "wc"], vec![contract::Target::parse("169.254.169.254:80").unwrap()])
        );
        assert_eq!(of(command, "-f", "a").unwrap_err().code.as_str(), "bad_arguments");
    }

    #[test]
    fn a_tool_cannot_say_that_it_is_more_harmless_than_its_profile() {
        let build = |profile, action: &str, safety, egress| {
            let tool = grep(|_| CommandLine::of("true"));
            let definition = Definition { action: action.into(), safety, egress, ..tool.definition };
            CommandTool { definition, profile, ..tool }.build().map(|_| ()).map_err(|error| error.to_string())
        };
        let (read, write, none) = (SafetyClass::Read, SafetyClass::Write, EgressClass::None);
        assert_eq!(build(Profile::Inspect, "code:read", read, none), Ok(()));
        assert_eq!(build(Profile::Build, "code:write", write, none), Ok(()));
        let says = |what: &str, profile: &str| {
            Err(format!(
                "`text.grep` says that it is `{what}`, but the profile `{profile}` permits more than that"
            ))
        };
        assert_eq!(build(Profile::Build, "code:write", read, none), says("read", "build"));
        assert_eq!(build(Profile::Mutate, "code:read", write, none), says("code:read", "mutate"));
        assert_eq!(
            build(Profile::Networked, "web:read", SafetyClass::Network, none),
            says("egress none", "networked")
        );
        let unknown = build(Profile::Inspect, "code:look", read, none);
        assert_eq!(unknown, Err("`text.grep` does not say what it does".to_owned()));
    }

    #[test]
    fn text_is_utf_8_and_success_is_exit_code_0() {
        let output =
            |exit_code, stdout: &[u8]| CommandOutput { exit_code, stdout: stdout.into(), stderr: Vec::new() };
        assert_eq!(output(0, b"a").success().unwrap(), "a");
        assert_eq!(output(1, b"a").text().unwrap(), "a");
        assert_eq!(output(1, b"a").success().unwrap_err().code.as_str(), "tool_failed");
        assert_eq!(output(0, b"\xff").success().unwrap_err().code.as_str(), "bad_output");
    }
}
