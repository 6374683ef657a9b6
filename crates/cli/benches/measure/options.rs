//! What `./bench` asks for.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::bars::Part;
use crate::rounds::{Effort, FULL, QUICK};

#[derive(Default)]
pub(crate) struct Options {
    pub(crate) parts: Vec<Part>,
    /// The list of peers; without it there is nothing to compare with.
    pub(crate) contenders: Option<PathBuf>,
    /// Where contenders complain.
    pub(crate) stderr: PathBuf,
    /// As whom this runs, in a word.
    pub(crate) who: String,
    /// The binary that is shipped.
    pub(crate) toolgate: PathBuf,
    /// A folder of its own on the disk that is measured.
    pub(crate) folder: PathBuf,
    pub(crate) quick: bool,
    pub(crate) long: bool,
    pub(crate) json: bool,
    pub(crate) check: bool,
}

impl Options {
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options> {
        let mut options = Options::default();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().with_context(|| format!("`{argument}` takes a value"));
            match argument.as_str() {
                "--part" => options.parts.push(Part::parse(&value()?)?),
                "--contenders" => options.contenders = Some(value()?.into()),
                "--stderr" => options.stderr = value()?.into(),
                "--who" => options.who = value()?,
                "--toolgate" => options.toolgate = value()?.into(),
                "--folder" => options.folder = value()?.into(),
                "--quick" => options.quick = true,
                "--long" => options.long = true,
                "--json" => options.json = true,
                "--check" => options.check = true,
                "--bench" => {} // cargo's own
                _ => bail!("unknown argument `{argument}`"),
            }
        }
        Ok(options)
    }

    pub(crate) fn effort(&self) -> &'static Effort {
        if self.quick { &QUICK } else { &FULL }
    }
}
