//! Places that were not granted, and granted names that lead to them.

use contract::Private;
use egress::Guard;
use serde_json::json;

use super::trip::{Trip, granting, settings};
use crate::Try;
use crate::case::Effect;
use crate::gate::case::Case;
use crate::gate::stand::{Ending, Stand};

/// Names whose zone leads to where nobody from outside belongs.
const SPECIAL: [&str; 10] = [
    "private.test",
    "loopback.test",
    "metadata.test",
    "cgnat.test",
    "unspecified.test",
    "mapped.test",
    "nat64.test",
    "sixtofour.test",
    "teredo.test",
    "local6.test",
];

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "host-not-granted",
            "a host that was not granted is not reached",
            |stand| bare(stand, "https://other.test/TOKEN"),
            |stand| {
                let trip = Trip::begin(stand)?;
                let tried = trip.guarded(
                    &["example.test:443"],
                    "curl",
                    &curl(stand, &trip, "https://other.test/TOKEN")?,
                )?;
                tried.refused("other.test", "host_not_granted")?;
                Ok(trip.judged(|_| true))
            },
        )
        .held_by(Guard::Places),
        Case::new(
            "port-not-granted",
            "another port of a granted host is not reached",
            |stand| bare(stand, "https://example.test:8443/TOKEN"),
            |stand| {
                let trip = Trip::begin(stand)?;
                let url = "https://example.test:8443/TOKEN";
                trip.guarded(&["example.test:443"], "curl", &curl(stand, &trip, url)?)?
                    .says("exit code 7")?;
                Ok(trip.judged(|_| true))
            },
        ),
        Case::new(
            "address-not-granted",
            "the address of a host is not reached by itself, not even a granted one's",
            |stand| bare(stand, "https://93.184.216.35/TOKEN"),
            |stand| {
                let trip = Trip::begin(stand)?;
                let gate = stand.gate(settings(granting(&["example.test:443"], Private::none())?))?;
                for address in ["93.184.216.35", "93.184.216.34", "[2606:2800:220:1::5]"] {
                    let url = format!("https://{address}/TOKEN");
                    let place = format!("{address}:443");
                    let tried = trip.call(&gate, "curl", &curl(stand, &trip, &url)?)?;
                    tried.refused(&place, "address_not_granted")?;
                }
                Ok(trip.judged(|_| true))
            },
        ),
        Case::new(
            "special-answer",
            "a granted name that leads to a private, local or wrapped address is not reached",
            |stand| bare(stand, "http://private.test/TOKEN"),
            |stand| ask_special(stand, Private::none()),
        )
        .without("the check of addresses", |stand| {
            let mut everything = Private::none();
            for range in ["10.0.0.0/8", "127.0.0.0/8", "100.64.0.0/10"] {
                everything.add(range).map_err(|error| error.to_string())?;
            }
            ask_special(stand, everything)
        }),
        Case::new(
            "opted-in-by-a-name",
            "opting in to a range is no yes to any name that leads there",
            |stand| bare(stand, "http://leads.inside.test/TOKEN"),
            |stand| {
                let trip = Trip::begin(stand)?;
                let mut opted = Private::none();
                opted.add("10.0.0.0/8").map_err(|error| error.to_string())?;
                let url = "http://leads.inside.test/TOKEN";
                let allow = ["*.inside.test:80", "10.0.0.4:80", "10.0.0.5:443"];
                let tried = trip.with(granting(&allow, opted.clone())?, "curl", &curl(stand, &trip, url)?)?;
                tried.refused("leads.inside.test:80", "special_address")?;
                let egress = granting(&["*.inside.test:80"], opted)?;
                let ending =
                    if stand.without.is_some() { Ending::Done } else { Ending::Failed("host_not_allowed") };
                trip.ask_with(egress, "http.request", &json!({ "url": url }), ending)?;
                Ok(trip.judged(|_| true))
            },
        )
        .held_by(Guard::Addresses),
        Case::new(
            "one-bad-address",
            "one private address among public ones refuses the host",
            |stand| bare(stand, "http://mixed.test/TOKEN"),
            |stand| {
                let trip = Trip::begin(stand)?;
                let tried = trip.guarded(
                    &["mixed.test:80"],
                    "curl",
                    &curl(stand, &trip, "http://mixed.test/TOKEN")?,
                )?;
                tried.refused("mixed.test:80", "special_address")?;
                Ok(trip.judged(|_| true))
            },
        )
        .held_by(Guard::Addresses),
        Case::new(
            "rebinding",
            "an address that changes between two lookups is checked each time it is dialled",
            |stand| {
                let trip = Trip::begin(stand)?;
                let name = format!("http://flip-{}.test/TOKEN", &trip.token);
                trip.bare("curl", &curl(stand, &trip, &name)?)?;
                trip.bare("curl", &curl(stand, &trip, &name)?)?;
                Ok(trip.judged(|visit| visit.address.is_ipv4() && is_loopback(visit)))
            },
            |stand| {
                let trip = Trip::begin(stand)?;
                let name = format!("flip-{}.test", &trip.token);
                let (place, url) = (format!("{name}:80"), format!("http://{name}/TOKEN"));
                let gate = stand.gate(settings(granting(&[&place], Private::none())?))?;
                trip.call(&gate, "curl", &curl(stand, &trip, &url)?)?.says("reached")?;
                trip.call(&gate, "curl", &curl(stand, &trip, &url)?)?.refused(&place, "special_address")?;
                Ok(trip.judged(is_loopback))
            },
        )
        .held_by(Guard::Addresses),
        Case::new(
            "redirected",
            "a redirect leads nowhere that was not granted",
            |stand| {
                let trip = Trip::begin(stand)?;
                trip.bare("curl", &curl(stand, &trip, REDIRECT)?)?;
                Ok(trip.judged(is_elsewhere))
            },
            |stand| {
                let trip = Trip::begin(stand)?;
                let gate = stand.gate(settings(granting(&["example.test:80"], Private::none())?))?;
                trip.call(&gate, "curl", &curl(stand, &trip, REDIRECT)?)?
                    .refused("metadata.test", "host_not_granted")?;
                let literal = "http://example.test/redirect?to=http://169.254.169.254/TOKEN";
                let tried = trip.call(&gate, "curl", &curl(stand, &trip, literal)?)?;
                tried.refused("169.254.169.254:80", "address_not_granted")?;
                Ok(trip.judged(is_elsewhere))
            },
        ),
    ]
}

const REDIRECT: &str = "http://example.test/redirect?to=http://metadata.test/TOKEN";

fn is_loopback(visit: &crate::world::Visit) -> bool {
    visit.address.is_loopback()
}

/// Not the one who sends others away.
fn is_elsewhere(visit: &crate::world::Visit) -> bool {
    !visit.says("/redirect")
}

fn bare(stand: &Stand<'_>, url: &str) -> Try<Effect> {
    let trip = Trip::begin(stand)?;
    trip.bare("curl", &curl(stand, &trip, url)?)?;
    Ok(trip.judged(|_| true))
}

fn ask_special(stand: &Stand<'_>, private: Private) -> Try<Effect> {
    let trip = Trip::begin(stand)?;
    let is_checked = private == Private::none();
    let places: Vec<String> = SPECIAL.iter().map(|name| format!("{name}:80")).collect();
    let allow: Vec<&str> = places.iter().map(String::as_str).collect();
    let gate = stand.gate(settings(granting(&allow, private)?))?;
    for (name, place) in SPECIAL.iter().zip(&places) {
        let tried = trip.call(&gate, "curl", &curl(stand, &trip, &format!("http://{name}/TOKEN"))?)?;
        if is_checked {
            tried.refused(place, "special_address")?;
        }
    }
    Ok(trip.judged(|_| true))
}

/// Does not mind who vouches for whom: what counts is who is reached. Where to is written in a file, because a place that the
/// call names would be granted with it.
fn curl(stand: &Stand<'_>, trip: &Trip<'_>, url: &str) -> Try<[&'static str; 6]> {
    let url = url.replace("TOKEN", &trip.token);
    stand.put("curl.conf", &format!("url = \"{url}\"\n"))?;
    Ok(["-sSkL", "--max-time", "8", "--globoff", "--config", "curl.conf"])
}
