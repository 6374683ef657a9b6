//! Plans as they are on the wire: where the fuzzer of the decoder begins.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use jail::{
    Access, ChangeReport, Content, Directory, Draft, Limits, Names, Network, Pattern, Plan, Program,
    Strictness,
};

/// Puts them where the fuzzer looks before it makes up its own.
pub(crate) fn write_to(folder: &Path) -> Result<(), Box<dyn Error>> {
    std::fs::create_dir_all(folder)?;
    for (name, draft) in
        [("smallest", smallest()), ("inspect", inspect()), ("build", build()), ("brought", brought())]
    {
        std::fs::write(folder.join(name), Plan::try_from(draft)?.encode()?)?;
    }
    Ok(())
}

/// Nothing that can be left out.
fn smallest() -> Draft {
    Draft {
        program: Program::Inside("ls".into()),
        arguments: Vec::new(),
        working_directory: "/".into(),
        directories: Vec::new(),
        environment: Vec::new(),
        names: Names { hidden: Vec::new(), protected: Vec::new(), ..Names::default() },
        network: Network::Closed,
        limits: Limits::default(),
        changes: ChangeReport::Skip,
        strictness: Strictness::Report,
    }
}

/// `toolgate run -- ls -la`
fn inspect() -> Draft {
    Draft {
        arguments: vec!["-la".into(), "--".into(), "é\n".into()],
        working_directory: "/work/project".into(),
        directories: vec![directory("/work/project", Access::Read, Content::Work)],
        environment: variables(),
        names: Names::default(),
        ..smallest()
    }
}

/// `toolgate run --profile build --rw . --ro /opt --memory 64m --strict --json -- make`
fn build() -> Draft {
    let sqlite = Pattern::parse("*.sqlite").ok();
    Draft {
        program: Program::Inside("make".into()),
        directories: vec![
            directory("/work/project", Access::Write, Content::Work),
            directory("/work/project/vendor", Access::Read, Content::Work),
            directory("/opt", Access::Read, Content::Software),
        ],
        names: Names { hidden: sqlite.into_iter().collect(), ..Names::default() },
        network: Network::Loopback,
        limits: Limits { memory: 64 << 20, timeout: Duration::from_millis(1500), ..Limits::default() },
        changes: ChangeReport::List,
        strictness: Strictness::Refuse,
        ..inspect()
    }
}

/// A program of the host, as the canaries are.
fn brought() -> Draft {
    Draft {
        program: Program::Brought("/usr/bin/toolgate".into()),
        arguments: vec!["__canary".into()],
        ..smallest()
    }
}

fn directory(path: impl AsRef<Path>, access: Access, content: Content) -> Directory {
    Directory { path: path.as_ref().to_owned(), access, content }
}

fn variables() -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
    [("PATH", "/usr/bin:/bin"), ("HOME", "/home/agent"), ("LANG", "C.UTF-8"), ("EMPTY", "")]
        .map(|(name, value)| (name.into(), value.into()))
        .into()
}
