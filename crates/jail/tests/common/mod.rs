//! What tests of whole sandboxes share. The test's own binary is the launcher of every sandbox.

use std::path::Path;

use jail::{
    Access, ChangeReport, Content, DEFAULT_PATH, Directory, Draft, Helper, Limits, Names, Network, Own, Plan,
    Program, Report, Request, Response, Strictness,
};
use libtest_mimic::{Arguments, Trial};
use tempfile::TempDir;

/// A test: it panics if it fails.
pub(crate) type Test = (&'static str, fn());

/// The `main` of such tests.
pub(crate) fn run_all(tests: &'static [Test]) {
    // It ends the process if it was started for that, before any thread can exist.
    jail::serve_if_asked(Own { prepare: || {}, run: |_| 1 });
    let arguments = Arguments::from_args();
    let lacking = if arguments.list { None } else { missing_walls() };
    let required = std::env::var("TOOLGATE_REQUIRE").unwrap_or_default();
    let is_required = required.split(',').any(|name| name == "native");
    if let (Some(why), false) = (&lacking, is_required) {
        eprintln!("skipped: all of it: {why}");
        return;
    }
    let trials = tests.iter().map(|(name, test)| {
        let lacking = lacking.clone();
        Trial::test(*name, move || match lacking {
            Some(why) => Err(why.into()),
            None => {
                test();
                Ok(())
            }
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit();
}

pub(crate) fn reported(answer: Response) -> Report {
    match answer {
        Response::Report(report) => *report,
        Response::Refused { messages, .. } => panic!("{messages:?}"),
    }
}

pub(crate) fn with_program(plan: &Plan, program: Program) -> Plan {
    Plan::try_from(Draft { program, ..plan.draft().clone() }).unwrap()
}

pub(crate) fn request(script: &str, limits: Limits, writable: Option<&Path>) -> Request {
    let granted = writable.map(|path| Directory {
        path: path.to_owned(),
        access: Access::Write,
        content: Content::Work,
    });
    let draft = Draft {
        program: Program::Inside("sh".into()),
        arguments: vec!["-c".into(), script.into()],
        working_directory: writable.unwrap_or(Path::new("/")).to_owned(),
        directories: granted.into_iter().collect(),
        environment: vec![("PATH".into(), DEFAULT_PATH.into())],
        names: Names::default(),
        network: Network::Closed,
        limits,
        changes: ChangeReport::Skip,
        strictness: Strictness::Report,
    };
    Request { plan: Plan::try_from(draft).unwrap(), sealed: Vec::new(), input: Vec::new() }
}

/// Why nothing can be tried here.
fn missing_walls() -> Option<String> {
    match Helper::own().unwrap().run(&request("true", Limits::default(), None)).unwrap() {
        Response::Report(_) => None,
        Response::Refused { messages, .. } => Some(messages.join(": ")),
    }
}

/// Not beneath /tmp, which is scratch space inside.
pub(crate) fn folder() -> TempDir {
    tempfile::Builder::new().prefix("toolgate-jail-").tempdir_in("/var/tmp").unwrap()
}
