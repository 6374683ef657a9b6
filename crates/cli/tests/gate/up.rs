//! `toolgate up`: links for its owner, and what is said when the port is taken.

use std::net::TcpListener;

use crate::place::{Place, Up};

#[test]
fn a_running_gate_gives_its_owner_a_new_link() {
    let Some(place) = Place::new() else { return };
    let up = Up::start(&place);
    let address = up.url().replace("http://", "");
    let asked = place.toolgate(&["up", "--link", "--listen", &address]);
    assert_eq!(asked.code, Some(0), "{asked:?}");
    assert!(asked.stdout.starts_with(&format!("{}/sign-in?code=", up.url())), "{asked:?}");
    assert_ne!(asked.stdout.trim_end(), up.sign_in);
    let (_, asked) = place.json(&["up", "--link", "--listen", &address]);
    assert_eq!(asked["address"], address);
}

#[test]
fn where_no_gate_runs_there_is_no_link() {
    let Some(place) = Place::new() else { return };
    let asked = place.toolgate(&["up", "--link", "--listen", "127.0.0.1:9"]);
    assert_eq!(asked.code, Some(2), "{asked:?}");
    assert!(asked.stderr.starts_with("error: no gate of yours listens on `127.0.0.1:9`"), "{asked:?}");
}

#[test]
fn a_port_that_is_taken_is_said_to_be_whose() {
    let Some(place) = Place::new() else { return };
    let up = Up::start(&place);
    let address = up.url().replace("http://", "");
    let second = place.toolgate(&["up", "--listen", &address]);
    assert_eq!(second.code, Some(2), "{second:?}");
    assert!(second.stderr.contains("hint: a gate of yours runs there: `toolgate up --link"), "{second:?}");

    let taken = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let address = taken.local_addr().expect("it is bound").to_string();
    let second = place.toolgate(&["up", "--listen", &address]);
    assert_eq!(second.code, Some(2), "{second:?}");
    let holder =
        format!("(process {}) has the port; --listen 127.0.0.1:0 takes any free port", std::process::id());
    assert!(second.stderr.contains(&holder), "{second:?}");
}

#[test]
fn what_it_prints_can_be_typed_whatever_the_search_path_is() {
    let Some(place) = Place::new() else { return };
    let mut command = place.command(&["demo"]);
    let ran = crate::toolgate::finish(crate::toolgate::start(&mut command));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let own = crate::toolgate::binary();
    assert!(ran.stdout.contains(&format!("claude mcp add toolgate -- {} mcp", own.display())), "{ran:?}");
}
