//! A gate of its own to be measured: the binary that is shipped, its store on this disk, a small workspace.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

/// What a call of `fs.read` has to give.
pub(crate) const README: &str = "# Read me";

/// Every program may run, so that nobody is asked about `python3`, and as often as it can; all else is as it comes.
const CONFIGURATION: &str = "\
policy: { agent_rate_limit: { max_calls: 10000000, window_ms: 60000 } }
agents:
  default: { overrides: { terminal: full } }
";

/// Where gates of one home work.
pub(crate) struct Home {
    toolgate: PathBuf,
    folder: PathBuf,
}

/// `toolgate up`; ended when dropped.
pub(crate) struct Up {
    child: Child,
    /// Held, so that what it prints later does not end it.
    _stdout: BufReader<ChildStdout>,
    /// As `ADDRESS:PORT`.
    pub(crate) address: String,
    /// The agent's.
    pub(crate) token: String,
}

impl Home {
    pub(crate) fn make(toolgate: &Path, folder: PathBuf) -> Result<Home> {
        for name in ["state", "work"] {
            let path = folder.join(name);
            std::fs::create_dir_all(&path).with_context(|| format!("cannot make `{}`", path.display()))?;
        }
        std::fs::write(folder.join("state/toolgate.yaml"), CONFIGURATION)?;
        std::fs::write(folder.join("work/README.md"), format!("{README}\n").repeat(20))?;
        Ok(Home { toolgate: toolgate.to_owned(), folder })
    }

    /// Adds to the configuration.
    pub(crate) fn configure(&self, more: &str) -> Result<()> {
        Ok(std::fs::write(self.folder.join("state/toolgate.yaml"), format!("{CONFIGURATION}{more}"))?)
    }

    /// Puts another one in its place.
    pub(crate) fn replace_configuration(&self, text: &str) -> Result<()> {
        Ok(std::fs::write(self.folder.join("state/toolgate.yaml"), text)?)
    }

    /// Puts a file beside the workspace. Where it is.
    pub(crate) fn put(&self, name: &str, content: &str) -> Result<String> {
        let path = self.folder.join(name);
        std::fs::write(&path, content)?;
        Ok(path.display().to_string())
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.toolgate);
        command.args(arguments).current_dir(self.folder.join("work"));
        command.env("TOOLGATE_HOME", self.folder.join("state")).stdin(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// A token for an agent.
    pub(crate) fn token(&self, agent: &str) -> Result<String> {
        let token = self.command(&["agents", "token", agent]).stdout(Stdio::piped()).output()?;
        ensure!(token.status.success(), "there is no token for the agent `{agent}`");
        Ok(String::from_utf8(token.stdout)?.trim().to_owned())
    }

    /// Toolgate's home.
    pub(crate) fn state(&self) -> PathBuf {
        self.folder.join("state")
    }

    pub(crate) fn up(&self) -> Result<Up> {
        let mut child = self.command(&["up", "--listen", "127.0.0.1:0"]).stdout(Stdio::piped()).spawn()?;
        let mut stdout = BufReader::new(child.stdout.take().context("its output is piped")?);
        let mut said = String::new();
        let address = loop {
            let begin = said.len();
            ensure!(stdout.read_line(&mut said)? > 0, "`toolgate up` does not start: {said}");
            let line = said.get(begin..).unwrap_or_default();
            let link = line.split_whitespace().find_map(|word| word.split_once("/sign-in?code="));
            if let Some(address) = link.and_then(|(url, _)| url.strip_prefix("http://")) {
                break address.to_owned();
            }
        };
        let token = self.token("default")?;
        Ok(Up { child, _stdout: stdout, address, token })
    }
}

impl Up {
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Asks a program of ours to end, and waits for it.
pub(crate) fn end(child: &mut Child) {
    if let Some(id) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process(id, Signal::TERM);
    }
    let _ = child.wait();
}
