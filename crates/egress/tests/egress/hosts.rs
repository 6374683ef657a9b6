//! Hosts of the outside.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::HeaderValue;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::world::{client_config, public_address, server_config};

/// A host that counts who comes.
pub(crate) struct OutsideHost {
    pub(crate) address: Ipv4Addr,
    visits: Arc<AtomicUsize>,
}

impl OutsideHost {
    /// One that serves each connection in a task of its own.
    pub(crate) async fn serve<F, S>(port: u16, serve: F) -> OutsideHost
    where
        F: Fn(TcpStream) -> S + Send + 'static,
        S: Future<Output = ()> + Send + 'static,
    {
        OutsideHost::serve_at(public_address(), port, serve).await
    }

    pub(crate) async fn serve_at<F, S>(address: Ipv4Addr, port: u16, serve: F) -> OutsideHost
    where
        F: Fn(TcpStream) -> S + Send + 'static,
        S: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind((address, port)).await.unwrap();
        let visits = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&visits);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(stream));
            }
        });
        OutsideHost { address, visits }
    }

    /// One that speaks TLS and says back what it hears.
    pub(crate) async fn tls_echo(name: &str, port: u16) -> OutsideHost {
        let acceptor = TlsAcceptor::from(server_config(name, &[]));
        OutsideHost::serve(port, move |stream| {
            let acceptor = acceptor.clone();
            async move {
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let mut buffer = vec![0; 4096];
                while let Ok(count @ 1..) = stream.read(&mut buffer).await {
                    stream.write_all(&buffer[..count]).await.unwrap();
                }
                let _ = stream.shutdown().await;
            }
        })
        .await
    }

    /// One that says back what it hears.
    pub(crate) async fn echo(port: u16) -> OutsideHost {
        OutsideHost::serve(port, |mut stream| async move {
            let mut buffer = vec![0; 4096];
            while let Ok(count @ 1..) = stream.read(&mut buffer).await {
                if stream.write_all(&buffer[..count]).await.is_err() {
                    return;
                }
            }
        })
        .await
    }

    pub(crate) fn at(&self) -> String {
        self.address.to_string()
    }

    pub(crate) fn visits(&self) -> usize {
        self.visits.load(Ordering::SeqCst)
    }
}

/// A TLS client as programs are: verifies the name, by the authorities it knows.
pub(crate) async fn tls(stream: TcpStream, name: &str) -> std::io::Result<TlsStream<TcpStream>> {
    tls_with(stream, name, client_config(&[])).await
}

pub(crate) async fn tls_with(
    stream: TcpStream,
    name: &str,
    config: rustls::ClientConfig,
) -> std::io::Result<TlsStream<TcpStream>> {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// A request as a host got it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Got {
    pub(crate) method: String,
    pub(crate) uri: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Got {
    pub(crate) fn header(&self, name: &str) -> Vec<&str> {
        self.headers.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str()).collect()
    }
}

/// A host that answers requests with `ok` and keeps them.
pub(crate) struct WebHost {
    pub(crate) host: OutsideHost,
    got: Arc<Mutex<Vec<Got>>>,
    echo: Arc<AtomicBool>,
}

impl WebHost {
    pub(crate) async fn plain(port: u16) -> WebHost {
        let got = Arc::<Mutex<Vec<Got>>>::default();
        let kept = Arc::clone(&got);
        let echo = Arc::new(AtomicBool::new(false));
        let says = Arc::clone(&echo);
        let host = OutsideHost::serve(port, move |stream| {
            answer(TokioIo::new(stream), Arc::clone(&kept), Arc::clone(&says))
        })
        .await;
        WebHost { host, got, echo }
    }

    pub(crate) async fn tls(name: &str, port: u16, protocols: &[&str]) -> WebHost {
        let got = Arc::<Mutex<Vec<Got>>>::default();
        let kept = Arc::clone(&got);
        let echo = Arc::new(AtomicBool::new(false));
        let says = Arc::clone(&echo);
        let acceptor = TlsAcceptor::from(server_config(name, protocols));
        let host = OutsideHost::serve(port, move |stream| {
            let (acceptor, kept, says) = (acceptor.clone(), Arc::clone(&kept), Arc::clone(&says));
            async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    answer(TokioIo::new(stream), kept, says).await;
                }
            }
        })
        .await;
        WebHost { host, got, echo }
    }

    /// From now on it answers with what it got.
    pub(crate) fn says_back(&self) {
        self.echo.store(true, Ordering::SeqCst);
    }

    pub(crate) fn got(&self) -> Vec<Got> {
        self.got.lock().unwrap().clone()
    }

    /// What was asked for, shortly.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.got().iter().map(|got| format!("{} {}", got.method, got.uri)).collect()
    }
}

async fn answer<I>(stream: I, got: Arc<Mutex<Vec<Got>>>, echo: Arc<AtomicBool>)
where
    I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let (got, echo) = (Arc::clone(&got), echo.load(Ordering::SeqCst));
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
            got.lock().unwrap().push(Got {
                method: parts.method.to_string(),
                uri: parts.uri.to_string(),
                headers: parts.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect(),
                body: String::from_utf8_lossy(&body).into_owned(),
            });
            let said = if echo { format!("{:?}", got.lock().unwrap()) } else { "ok".to_owned() };
            Ok::<_, hyper::Error>(Response::new(Full::new(Bytes::from(said))))
        }
    });
    let _ = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new())
        .serve_connection(stream, service)
        .await;
}

/// Sends bytes and reads until the other side ends.
pub(crate) async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin, sent: &str) -> String {
    let _ = stream.write_all(sent.as_bytes()).await;
    read_all(&mut stream).await
}

pub(crate) async fn read_all(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut answer = Vec::new();
    // What was sent before an abrupt end counts.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}
