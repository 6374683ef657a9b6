//! Hosts that are never on the outside, in every spelling.

use std::net::{IpAddr, ToSocketAddrs};

use serde_json::json;

use crate::Try;
use crate::case::Effect;
use crate::gate::case::Case;
use crate::gate::stand::{Ending, Stand, trusted};

/// What hands out credentials to whoever asks from inside.
const METADATA: &str = "169.254.169.254";

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "metadata-service",
            "a metadata service or this machine is refused by its address, in every spelling of it",
            |_| spelled_differently(SPELLINGS),
            |stand| ask_for(stand, SPELLINGS),
        ),
        Case::new(
            "address-in-address",
            "an address within another one is that address",
            |_| wrapped(),
            |stand| ask_for(stand, WRAPPED),
        ),
        Case::new(
            "host-spelling",
            "a host is special whatever dots, digits, letters and zones it is written with",
            |_| other_texts(),
            |stand| ask_for(stand, DISGUISED),
        ),
        Case::new(
            "userinfo-host",
            "what stands before the host of a URL is not the host",
            |_| {
                let naive = |url: &str| {
                    url.split("://")
                        .nth(1)
                        .and_then(|rest| rest.split(['/', '@', ':']).next())
                        .map(str::to_owned)
                };
                let fooled = USERINFO.iter().all(|url| naive(url).as_deref() != Some(METADATA));
                Ok(Effect::through_if(fooled, "the first name is taken for the host"))
            },
            disguise,
        ),
    ]
}

/// The same address for a resolver, and another text for a list.
const SPELLINGS: &[&str] = &[
    "169.254.169.254",
    "2852039166",
    "0xa9fea9fe",
    "0XA9.254.0xA9.0376",
    "169.254.43518",
    "0251.0376.0251.0376",
    "127.1",
    "0",
    "0x7f000001",
];

const WRAPPED: &[&str] = &[
    "[::ffff:169.254.169.254]",
    "[::ffff:a9fe:a9fe]",
    "[0:0:0:0:0:ffff:a9fe:a9fe]",
    "[::169.254.169.254]",
    "[64:ff9b::169.254.169.254]",
    "[2002:a9fe:a9fe::1]",
    "[2001:0:a9fe:a9fe::]",
    "[::1]",
    "[::]",
    "[fe80::1%25eth0]",
    "[fd00:ec2::254]",
];

/// What a program that knows international names, or zones, takes for a special host.
const DISGUISED: &[&str] = &[
    "１６９.254.169.254",
    "169。254。169。254",
    "169．254．169．254",
    "①⑥⑨.254.169.254",
    "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ",
    "LOCALHOST",
    "printer.LoCaL",
    "metadata.google.internal",
    "ｍetadata.google.internal",
    "[fe80::1%25eth0]",
    "[::ffff:0:169.254.169.254]",
    "192.0.0.192",
    "168.63.129.16",
    "100.100.100.200",
    "[fd20:ce::254]",
    "[5f00::1]",
    "198.18.0.1",
];

const USERINFO: &[&str] = &[
    "http://good.example@169.254.169.254/",
    "http://good.example:80@169.254.169.254:80/",
    "http://good.example%40x@169.254.169.254/?y=@good.example",
    "http://a@b@169.254.169.254#@good.example",
    "http://good.example\\@169.254.169.254/",
    "http://good.example\"@169.254.169.254/",
    "http://good.example'@169.254.169.254/",
    "http://<good.example>@169.254.169.254/",
    "http:///169.254.169.254/",
    "http://169.254.169.254\\@good.example/",
];

/// A list of texts passes all but the first, and a resolver takes each for a special address.
fn spelled_differently(spellings: &[&str]) -> Try<Effect> {
    for spelling in spellings.iter().skip(1) {
        let mut found = (*spelling, 80).to_socket_addrs().map_err(|error| format!("{spelling}: {error}"))?;
        let is_special = |address: IpAddr| match address {
            IpAddr::V4(address) => {
                address.is_link_local() || address.is_loopback() || address.is_unspecified()
            }
            IpAddr::V6(_) => false,
        };
        if *spelling == METADATA || !found.any(|address| is_special(address.ip())) {
            return Ok(Effect::Held(format!("`{spelling}` is not taken for it")));
        }
    }
    Ok(Effect::Through("each is another text and the same host".to_owned()))
}

/// A check of IPv4 addresses alone has nothing to say of them.
fn wrapped() -> Try<Effect> {
    let is_v4 = |text: &str| text.parse::<std::net::Ipv4Addr>().is_ok();
    Ok(Effect::through_if(
        !WRAPPED.iter().any(|text| is_v4(text)),
        "none of them is an IPv4 address by its text",
    ))
}

/// A list of the plain spellings has none of them.
fn other_texts() -> Try<Effect> {
    let plain = ["169.254.169.254", "localhost", "127.0.0.1", "::1"];
    Ok(Effect::through_if(
        !DISGUISED.iter().any(|text| plain.contains(text)),
        "none of them is on a plain list",
    ))
}

fn ask_for(stand: &Stand<'_>, hosts: &[&str]) -> Try<Effect> {
    let gate = stand.gate(trusted())?;
    for host in hosts {
        let calls = [
            ("curl", format!("http://{host}/latest/"), "networked"),
            ("curl", format!("--url=HTTPS://x@{host}.:8080?x"), "networked"),
            ("git", format!("http://{host}/"), "build"),
        ];
        for (command, url, profile) in calls {
            let call = json!({ "command": command, "args": ["clone", url], "profile": profile });
            gate.call("shell", call, Ending::Refused("host_not_allowed"))?;
        }
    }
    Ok(Effect::Held("nothing was run".to_owned()))
}

fn disguise(stand: &Stand<'_>) -> Try<Effect> {
    let gate = stand.gate(trusted())?;
    for url in USERINFO {
        let call = json!({ "command": "curl", "args": [url], "profile": "networked" });
        gate.call("shell", call, Ending::Refused("host_not_allowed"))?;
    }
    Ok(Effect::Held("nothing was run".to_owned()))
}
