//! Hands one mail to a server, and says nothing else to it.
//!
//! # Invariants
//! - A password is said over TLS alone; a server that offers none where it should gets nothing.
//! - What was said before TLS began does not count after it.
//! - No address and no line of a mail can end a command or the mail.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contract::Target;
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::credentials::{Secret, SecretSource};
use crate::own::OwnError;
use crate::tls::server_name;

/// The longest line of an answer, and how many there are at most.
const MAX_LINE: u64 = 2048;
const MAX_LINES: usize = 100;

/// When TLS begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailTls {
    /// After the greeting (port 587, or 25). A server that cannot is not used.
    StartTls,
    /// At once (port 465).
    Implicit,
    /// Never: for a server on this machine.
    Never,
}

/// A mail, and the server that takes it.
#[derive(Clone, Debug)]
pub struct Mail<'a> {
    /// Which server.
    pub server: Target,
    /// When TLS begins.
    pub tls: MailTls,
    /// As whom, if it asks.
    pub login: Option<(&'a str, &'a SecretSource)>,
    /// From whom.
    pub from: &'a str,
    /// To whom.
    pub to: &'a [String],
    /// What it is about: plain characters.
    pub subject: &'a str,
    /// What it says.
    pub text: &'a str,
    /// When, in milliseconds since 1970.
    pub now: i64,
    /// What makes it different from every other.
    pub id: &'a str,
}

/// Whether a text can be an address: no more than that, and nothing that could be more than an address.
pub fn is_mail_address(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~.@".contains(c);
    let Some((name, host)) = text.split_once('@') else { return false };
    text.len() <= 254
        && text.chars().all(allowed)
        && !name.is_empty()
        && !host.is_empty()
        && host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-'))
}

pub(crate) async fn hand_over(
    stream: TcpStream,
    mail: &Mail<'_>,
    login: Option<(&str, Secret)>,
    tls: TlsConnector,
) -> Result<(), OwnError> {
    let name = || server_name(&mail.server.host).map_err(OwnError::Refused);
    let untrusted = |_| OwnError::Refused(crate::events::Denial::Untrusted);
    match mail.tls {
        MailTls::Implicit => {
            let stream = tls.connect(name()?, stream).await.map_err(untrusted)?;
            let mut talk = Talk::new(stream);
            talk.expect("greeting", 220).await?;
            talk.greet().await?;
            talk.deliver(mail, login).await
        }
        MailTls::StartTls => {
            let mut talk = Talk::new(stream);
            talk.expect("greeting", 220).await?;
            let offers = talk.greet().await?;
            if !offers.iter().any(|offer| offer.eq_ignore_ascii_case("STARTTLS")) {
                return Err(OwnError::NoTls);
            }
            talk.say("STARTTLS").await?;
            talk.expect("STARTTLS", 220).await?;
            // What came with the answer, before TLS, was said by whoever is on the way.
            if !talk.stream.buffer().is_empty() {
                return Err(OwnError::BrokenOff);
            }
            let stream = tls.connect(name()?, talk.stream.into_inner()).await.map_err(untrusted)?;
            let mut talk = Talk::new(stream);
            talk.greet().await?;
            talk.deliver(mail, login).await
        }
        MailTls::Never => {
            let mut talk = Talk::new(stream);
            talk.expect("greeting", 220).await?;
            talk.greet().await?;
            // Whoever configured a password without TLS is told when it is read; here none is said.
            talk.deliver(mail, None).await
        }
    }
}

struct Talk<S> {
    stream: BufReader<S>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Talk<S> {
    fn new(stream: S) -> Talk<S> {
        Talk { stream: BufReader::new(stream) }
    }

    async fn say(&mut self, line: &str) -> Result<(), OwnError> {
        let told = async {
            self.stream.get_mut().write_all(format!("{line}\r\n").as_bytes()).await?;
            self.stream.get_mut().flush().await
        };
        told.await.map_err(|_: std::io::Error| OwnError::BrokenOff)
    }

    /// The lines of an answer, without their codes.
    async fn expect(&mut self, to: &'static str, wanted: u16) -> Result<Vec<String>, OwnError> {
        let mut lines = Vec::new();
        for _ in 0..MAX_LINES {
            let mut line = Vec::new();
            let mut limited = (&mut self.stream).take(MAX_LINE);
            let read = limited.read_until(b'\n', &mut line).await.map_err(|_| OwnError::BrokenOff)?;
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            let code: u16 = line.get(..3).and_then(|code| code.parse().ok()).ok_or(OwnError::BrokenOff)?;
            if read == 0 {
                return Err(OwnError::BrokenOff);
            }
            if code != wanted {
                return Err(OwnError::Mail { code, to });
            }
            let is_last = line.as_bytes().get(3) != Some(&b'-');
            lines.push(line.get(4..).unwrap_or_default().to_owned());
            if is_last {
                return Ok(lines);
            }
        }
        Err(OwnError::BrokenOff)
    }

    async fn ask(&mut self, line: &str, to: &'static str, wanted: u16) -> Result<Vec<String>, OwnError> {
        self.say(line).await?;
        self.expect(to, wanted).await
    }

    /// What the server can.
    async fn greet(&mut self) -> Result<Vec<String>, OwnError> {
        self.ask("EHLO toolgate.invalid", "EHLO", 250).await
    }

    async fn deliver(&mut self, mail: &Mail<'_>, login: Option<(&str, Secret)>) -> Result<(), OwnError> {
        if let Some((user, password)) = login {
            let plain = zeroize::Zeroizing::new(format!("\0{user}\0{}", password.expose()));
            let line = zeroize::Zeroizing::new(format!("AUTH PLAIN {}", STANDARD.encode(plain.as_bytes())));
            self.ask(&line, "AUTH", 235).await?;
        }
        self.ask(&format!("MAIL FROM:<{}>", mail.from), "MAIL", 250).await?;
        for to in mail.to {
            self.ask(&format!("RCPT TO:<{to}>"), "RCPT", 250).await?;
        }
        self.ask("DATA", "DATA", 354).await?;
        self.ask(&written(mail), "the mail", 250).await?;
        // It has been taken; how they part does not matter.
        let _ = self.say("QUIT").await;
        Ok(())
    }
}

/// A mail as it is sent, with the dot that ends it. Its text is base64, so that none of its lines is one.
fn written(mail: &Mail<'_>) -> String {
    let plain = |text: &str| text.chars().filter(|c| matches!(c, ' '..='~')).collect::<String>();
    let date = chrono::DateTime::from_timestamp_millis(mail.now).unwrap_or_default().to_rfc2822();
    let text = STANDARD.encode(mail.text.replace("\r\n", "\n").replace('\n', "\r\n"));
    let lines: Vec<&str> = text.as_bytes().chunks(76).filter_map(|line| str::from_utf8(line).ok()).collect();
    let head = [
        format!("From: Toolgate <{}>", mail.from),
        format!("To: {}", mail.to.join(", ")),
        format!("Subject: {}", plain(mail.subject)),
        format!("Date: {date}"),
        format!("Message-ID: <{}@toolgate.invalid>", plain(mail.id)),
        "MIME-Version: 1.0".to_owned(),
        "Content-Type: text/plain; charset=utf-8".to_owned(),
        "Content-Transfer-Encoding: base64".to_owned(),
        "Auto-Submitted: auto-generated".to_owned(),
    ];
    format!("{}\r\n\r\n{}\r\n.", head.join("\r\n"), lines.join("\r\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_be_more_than_an_address_is_none() {
        for good in ["ops@example.com", "a.b+c@mail.example.com"] {
            assert!(is_mail_address(good), "{good}");
        }
        let bad = ["", "a", "@b", "a@", "a@b\r\nRCPT TO:<c@d>", "a@b>", "a b@c", "<a@b>", "a@b@c", "ä@b"];
        for bad in bad {
            assert!(!is_mail_address(bad), "{bad:?}");
        }
    }

    #[test]
    fn no_line_of_a_text_ends_the_mail_and_no_subject_adds_a_header() {
        let mail = Mail {
            server: Target::parse("mail.example.com:587").unwrap(),
            tls: MailTls::StartTls,
            login: None,
            from: "gate@example.com",
            to: &["ops@example.com".to_owned()],
            subject: "one\r\nBcc: evil@example.com",
            text: "a\n.\nQUIT\n",
            now: 0,
            id: "1",
        };
        let written = written(&mail);
        assert!(written.contains("Subject: oneBcc: evil@example.com\r\n"), "{written}");
        assert_eq!(written.matches("\r\n.").count(), 1, "{written}");
        assert!(written.ends_with("\r\n."));
    }
}
