//! Who takes part: the programs that `./bench` found, each started from outside.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::rounds::Lane;

pub(crate) struct Peers {
    pub(crate) contenders: Vec<Contender>,
    pub(crate) absent: Vec<Absent>,
}

pub(crate) struct Contender {
    name: String,
    pub(crate) version: String,
    program: String,
    arguments: Vec<String>,
    stderr: File,
}

pub(crate) struct Absent {
    pub(crate) name: String,
    pub(crate) why: String,
    /// Whether it takes part in another pass.
    pub(crate) elsewhere: bool,
}

impl Peers {
    /// One row each, fields parted by tabs: `run NAME VERSION ARGV…`, `absent NAME WHY` or `elsewhere NAME WHY`.
    pub(crate) fn read(path: &Path, stderr: &Path) -> Result<Peers> {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read `{}`", path.display()))?;
        let stderr = open_stderr_file(stderr)?;
        let mut peers = Peers { contenders: Vec::new(), absent: Vec::new() };
        for row in text.lines() {
            match row.split('\t').collect::<Vec<_>>().as_slice() {
                ["run", name, version, program, arguments @ ..] => peers.contenders.push(Contender {
                    name: name.to_string(),
                    version: version.to_string(),
                    program: program.to_string(),
                    arguments: arguments.iter().map(ToString::to_string).collect(),
                    stderr: stderr.try_clone()?,
                }),
                [word @ ("absent" | "elsewhere"), name, why] => peers.absent.push(Absent {
                    name: name.to_string(),
                    why: why.to_string(),
                    elsewhere: *word == "elsewhere",
                }),
                _ => bail!("cannot understand the row `{row}`"),
            }
        }
        ensure!(!peers.contenders.is_empty(), "`{}` names no contender", path.display());
        Ok(peers)
    }

    pub(crate) fn named(&self, name: &str) -> Option<&Contender> {
        self.contenders.iter().find(|one| one.name == name)
    }
}

impl Contender {
    /// The same with another program in place of the last word, under another name.
    pub(crate) fn running(&self, name: &str, command: &[&str]) -> Result<Contender> {
        let mut words: Vec<_> = [std::slice::from_ref(&self.program), self.arguments.as_slice()].concat();
        words.pop();
        words.extend(command.iter().map(ToString::to_string));
        let mut words = words.into_iter();
        Ok(Contender {
            name: name.to_owned(),
            version: self.version.clone(),
            program: words.next().context("there is no command")?,
            arguments: words.collect(),
            stderr: self.stderr.try_clone()?,
        })
    }
}

impl Lane for Contender {
    fn name(&self) -> &str {
        &self.name
    }

    /// From before the fork until the process has been waited for.
    fn call(&self) -> Result<()> {
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(self.stderr.try_clone()?);
        let status = command.status().with_context(|| format!("cannot start `{}`", self.program))?;
        if !status.success() {
            bail!("`{}` failed, so no figure stands: {status}\n{}", self.name, read_back(&self.stderr)?);
        }
        Ok(())
    }
}

/// A file and not a pipe: nothing to drain while the clock runs, and no daemon left behind can hold it open.
fn open_stderr_file(path: &Path) -> Result<File> {
    let opened = File::options().read(true).append(true).create(true).open(path);
    opened.with_context(|| format!("cannot open `{}`", path.display()))
}

fn read_back(mut file: &File) -> Result<String> {
    const ENOUGH: u64 = 2000;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(ENOUGH)))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail)?;
    Ok(String::from_utf8_lossy(&tail).into_owned())
}
