//! `toolgate up`: the gate with its page, until it is interrupted.

use std::io::Read;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use engine::{Credential, Engine};
use jail::Rest;
use serde_json::json;
use server::{
    Elsewhere, HttpError, HttpOptions, HttpReady, Limits, Outside, OutsideError, TlsFiles, link_socket,
    serve_http,
};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::agents::{LiveTokens, take_over_tokens};
use super::open::{Gate, home};
use super::person::lost;
use super::policy::read_texts;
use super::port::holder_of;
use super::telling::Live;
use super::{CODE_DONE, Trouble, register};
use crate::config::Tls;
use crate::talk::{self, own_name};

/// How often questions are looked at that nobody asks for.
const TEND_EVERY: Duration = Duration::from_secs(1);

const AFTER_HELP: &str = "\
The link it prints signs you in once, within ten minutes. Agents come in by `toolgate mcp`, or over HTTP with the token
that `toolgate agents token NAME` prints. All of them share the store, so any of them sees what the others do.
Calls over HTTP work in the directory it was started in, unless the configuration gives the agent a workspace.";

/// Run the gate, with a page where approvals wait
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct UpArguments {
    /// Where to listen; elsewhere than on loopback with --tls-cert and --name only
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,

    /// Print a new sign-in link of the gate that runs there, and nothing else
    #[arg(long)]
    link: bool,

    #[command(flatten)]
    outside: OutsideArguments,

    #[command(flatten)]
    pub(crate) gate: Gate,
}

/// How it is reached from outside of this machine.
#[derive(Args)]
struct OutsideArguments {
    /// Speak TLS with this certificate chain, a PEM file
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// The certificate's key, a PEM file
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// A name under which it answers besides `localhost`; needed where others can reach it
    #[arg(long = "name", value_name = "NAME")]
    names: Vec<String>,

    /// Listen where others can reach it although everything goes in the clear, tokens too
    #[arg(long, conflicts_with = "tls_cert")]
    dangerously_without_tls: bool,
}

impl OutsideArguments {
    /// What is typed, else what is configured: a certificate and its names belong together.
    fn read(self, configured: Option<Tls>) -> Outside {
        let OutsideArguments { tls_cert, tls_key, mut names, dangerously_without_tls } = self;
        let mut tls = tls_cert.zip(tls_key).map(|(certificate, key)| TlsFiles { certificate, key });
        if let (None, false, Some(Tls { certificate, key, names: own })) =
            (&tls, dangerously_without_tls, configured)
        {
            tls = Some(TlsFiles { certificate, key });
            names.extend(own);
        }
        Outside { tls, names, dangerously_without_tls }
    }
}

pub(crate) async fn up(arguments: UpArguments) -> Result<i32, Trouble> {
    if arguments.link {
        return new_link(&arguments);
    }
    let (opened, running) = arguments.gate.open_to_stay().await?;
    // The page answers as whoever opened it: without a credential there is nobody to open it.
    if let Some(trouble) = lost(opened.engine.local_operator()) {
        return Err(trouble);
    }
    opened.engine.keep_recovering();
    opened.engine.follow_upstreams();
    let registered = register::follow(opened.engine.clone(), opened.home.clone());
    read_texts(&opened.engine);
    let shutdown = CancellationToken::new();
    take_over_tokens(&opened.engine, &opened.home).await?;
    let live = Live::new(opened.egress.clone(), &opened.telling)?;
    let following = running.follow(opened.engine.clone(), Some(Arc::clone(&live)), shutdown.clone())?;
    opened.engine.begin_counting().await?;
    let options = HttpOptions {
        listen: arguments.listen.unwrap_or(opened.listen),
        outside: arguments.outside.read(opened.tls.clone()),
        operator_credential: Credential::load_or_create(&opened.home)?,
        agent_tokens: Arc::new(LiveTokens(opened.engine.clone())),
        access_tokens: opened.access_tokens.clone(),
        elsewhere: Arc::clone(&live) as Arc<dyn Elsewhere>,
        home: Some(opened.home.clone()),
        limits: Limits::default(),
        shutdown: shutdown.clone(),
    };
    let stop_tending = shutdown.child_token();
    let mut ended = signal(SignalKind::terminate())?;
    tokio::spawn(async move {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = ended.recv() => {}
        }
        shutdown.cancel();
    });
    let tending = tend(opened.engine.clone(), stop_tending.clone());
    let json = arguments.gate.json;
    let (telling, stop_telling, engine) = (TaskTracker::new(), stop_tending.clone(), opened.engine.clone());
    let tasks = telling.clone();
    let ready = move |ready: HttpReady| {
        announce(&ready, json);
        live.begin(&engine, ready.address, &tasks, &stop_telling);
    };
    let served = serve_http(opened.engine, options, ready).await;
    stop_tending.cancel();
    let _ = tending.await;
    telling.close();
    telling.wait().await;
    following.abort();
    registered.abort();
    served.map_err(|error| in_use(error, &opened.home))?;
    Ok(CODE_DONE)
}

/// Asks the gate that runs for a link. It knows its owner by the kernel's word, so no credential goes anywhere.
fn new_link(arguments: &UpArguments) -> Result<i32, Trouble> {
    let address = arguments.listen.map_or_else(|| arguments.gate.listen(), Ok)?;
    let socket = link_socket(&home()?, address.port());
    let mut link = String::new();
    let asked = UnixStream::connect(&socket).and_then(|stream| {
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        stream.take(1024).read_to_string(&mut link)
    });
    if asked.is_err() || link.is_empty() {
        let error = anyhow!("no gate of yours listens on `{address}`");
        return Err(
            Trouble::from(error).with_hint("`toolgate up` starts one; --listen names another address")
        );
    }
    if arguments.gate.json {
        talk::data(&json!({ "address": address, "sign_in": link.trim_end() }).to_string());
    } else {
        talk::data(link.trim_end());
    }
    Ok(CODE_DONE)
}

/// What to do about a port that somebody has already.
fn in_use(error: HttpError, home: &Path) -> Trouble {
    let (address, source) = match &error {
        HttpError::Listen { address, source } => (address, source),
        HttpError::Outside(OutsideError::NoTls { .. }) => {
            return Trouble::from(error)
                .with_hint("--tls-cert and --tls-key give it one, or `tls` in the configuration; on 127.0.0.1 it needs none");
        }
        HttpError::Outside(OutsideError::NoName { .. }) => {
            return Trouble::from(error).with_hint("--name NAME says it, as the certificate does");
        }
        _ => return error.into(),
    };
    if source.kind() != std::io::ErrorKind::AddrInUse {
        return error.into();
    }
    let elsewhere = format!("--listen {}:0 takes any free port", address.ip());
    let hint = if UnixStream::connect(link_socket(home, address.port())).is_ok() {
        format!(
            "a gate of yours runs there: `toolgate up --link --listen {address}` prints a new sign-in link; {elsewhere}"
        )
    } else {
        let holder = holder_of(address.port());
        format!("{} has the port; {elsewhere}", holder.unwrap_or_else(|| "another process".to_owned()))
    };
    Trouble::from(error).with_hint(hint)
}

/// Sees to questions whose time is over, or that go on to others, also when nobody asks.
fn tend(engine: Engine, shutdown: CancellationToken) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        let mut rest = Rest::default();
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(TEND_EVERY) => {}
            }
            // What fails now is tried again; whoever asks meanwhile hears of it.
            let _ = engine.tend().await;
            // Where code cannot be let go, it stays.
            let _ = rest.look();
        }
    })
}

fn announce(ready: &HttpReady, json: bool) {
    if json {
        talk::data(&json!({ "address": ready.address, "sign_in": ready.sign_in_url }).to_string());
        return;
    }
    let own = own_name();
    talk::data(&format!("toolgate is up on {}", ready.url));
    talk::data(&format!("  approve calls   {}", ready.sign_in_url));
    match &ready.link_socket {
        Some(_) => talk::data(&format!("  a new link      {own} up --link --listen {}", ready.address)),
        None => talk::warning(
            "no new sign-in link can be had later: there is no room for a socket in TOOLGATE_HOME",
        ),
    }
    talk::data(&format!("  an assistant    claude mcp add toolgate -- {own} mcp"));
    talk::data(&format!("  by hand         {own} call fs.list '{{}}'"));
}
