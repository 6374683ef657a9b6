use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::events::{Bytes, Record};

const LONG: Duration = Duration::from_secs(60);

/// Two ends of one connection.
#[expect(clippy::disallowed_methods, reason = "a connection of the test's own")]
async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (far, _) = listener.accept().await.unwrap();
    (near, far)
}

struct Rig {
    client: TcpStream,
    host: TcpStream,
    record: Record,
    pipe: tokio::task::JoinHandle<End>,
}

async fn rig(early: &'static [u8], most: u64, idle: Duration) -> Rig {
    let (client, inner) = pair().await;
    let (outer, host) = pair().await;
    let record = Record::new(|| 0, most);
    let meter = record.meter("a.test");
    let pipe = tokio::spawn(async move { join(inner, outer, early, Watch::Nothing, &meter, idle).await });
    Rig { client, host, record, pipe }
}

#[tokio::test]
async fn bytes_go_both_ways_and_are_counted() {
    let Rig { mut client, mut host, record, pipe } = rig(b"early ", u64::MAX, LONG).await;
    let up = vec![7_u8; 3_000_000];
    let down = vec![9_u8; 5_000_000];
    let (mut client_in, mut client_out) = client.split();
    let (mut host_in, mut host_out) = host.split();
    let (mut at_host, mut at_client) = (Vec::new(), Vec::new());
    let (a, b, c, d) = tokio::join!(
        async {
            client_out.write_all(&up).await.unwrap();
            client_out.shutdown().await
        },
        async {
            host_out.write_all(&down).await.unwrap();
            host_out.shutdown().await
        },
        host_in.read_to_end(&mut at_host),
        client_in.read_to_end(&mut at_client),
    );
    a.and(b).unwrap();
    c.and(d).unwrap();
    assert_eq!(pipe.await.unwrap(), End::Over);
    assert!(at_host.starts_with(b"early ") && at_host[6..] == up && at_client == down);
    let counted = record.usage().bytes_per_host["a.test"];
    assert_eq!(counted, Bytes { sent: 3_000_006, received: 5_000_000 });
}

#[tokio::test]
async fn a_side_that_has_ended_still_hears_the_other() {
    let Rig { mut client, mut host, pipe, .. } = rig(b"", u64::MAX, LONG).await;
    client.write_all(b"question").await.unwrap();
    client.shutdown().await.unwrap();
    let mut heard = String::new();
    host.read_to_string(&mut heard).await.unwrap();
    host.write_all(b"answer to ").await.unwrap();
    host.write_all(heard.as_bytes()).await.unwrap();
    drop(host);
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert_eq!(answer, "answer to question");
    assert_eq!(pipe.await.unwrap(), End::Over);
}

#[tokio::test]
async fn a_pipe_on_which_nothing_moves_is_closed() {
    let Rig { mut client, host: _host, pipe, .. } = rig(b"", u64::MAX, Duration::from_millis(50)).await;
    assert_eq!(pipe.await.unwrap(), End::Idle);
    assert_eq!(client.read(&mut [0; 1]).await.unwrap(), 0);
}

#[tokio::test]
async fn a_reader_of_small_pieces_gets_everything() {
    let Rig { mut client, mut host, pipe, .. } = rig(b"", u64::MAX, LONG).await;
    let sent = vec![3_u8; 20_000_000];
    let writer = tokio::spawn(async move {
        host.write_all(&sent).await.unwrap();
    });
    let mut got = 0;
    let mut buffer = vec![0; 10_000];
    loop {
        match client.read(&mut buffer).await.unwrap() {
            0 => break,
            count => got += count,
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(got, 20_000_000);
    writer.await.unwrap();
    drop(client);
    assert_eq!(pipe.await.unwrap(), End::Over);
}

#[tokio::test]
async fn no_more_goes_through_than_the_grant_may_move() {
    let Rig { client, mut host, record, pipe } = rig(b"12345", 1000, LONG).await;
    let _ = host.write_all(&vec![1; 5000]).await;
    assert_eq!(pipe.await.unwrap(), End::TooManyBytes);
    let counted = record.usage().bytes_per_host["a.test"];
    assert_eq!(counted, Bytes { sent: 5, received: 995 });
    drop(client);
}
