//! Answers that a chat brings.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::client::{Response, Wish};
use crate::stub::{CHAT_SECRET, Server, approval_id};

fn signature(version: &str, secret: &str, time: i64, body: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(format!("{version}:{time}:{body}").as_bytes());
    let digits: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{version}={digits}")
}

fn slack(time: i64, body: &str) -> Wish {
    let mac = signature("v0", CHAT_SECRET, time, body);
    Wish::new("POST", "/v1/chat/slack")
        .body(body)
        .with("X-Slack-Request-Timestamp", &time.to_string())
        .with("X-Slack-Signature", &mac)
}

fn webhook(time: i64, body: &str) -> Wish {
    let mac = signature("v1", CHAT_SECRET, time, body);
    Wish::new("POST", "/v1/chat/webhook")
        .body(body)
        .with("X-Toolgate-Timestamp", &time.to_string())
        .with("X-Toolgate-Signature", &mac)
}

fn command(user: &str, text: &str) -> String {
    format!("token=x&team_id=T1&user_id={user}&user_name=root&command=%2Fapprove&text={text}")
}

fn told(answer: &Response) -> String {
    answer.json()["text"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_slash_command_answers_as_the_operator_that_its_user_is() {
    let server = Server::start().await;
    let answer = server.ask(slack(0, &command("U1", &approval_id().to_string()))).await;
    assert_eq!((answer.status, told(&answer).as_str()), (200, "02020202: approved"));
    let deny = "team_id=T1&user_id=U1&command=%2Fdeny&text=02020202+not+now";
    assert_eq!(server.ask(slack(0, deny)).await.status, 200);
    let asked = server.gate.asked();
    assert!(asked.contains(&"chat 02020202 Approve reason=- by=me via=slack:U1".to_owned()), "{asked:?}");
    assert!(
        asked.contains(&"chat 02020202 Reject reason=not now by=me via=slack:U1".to_owned()),
        "{asked:?}"
    );
}

#[tokio::test]
async fn another_chat_answers_with_signed_json() {
    let server = Server::start().await;
    let answer = server.ask(webhook(0, r#"{"user":"alice","text":"/approve 02020202"}"#)).await;
    assert_eq!((answer.status, told(&answer).as_str()), (200, "02020202: approved"));
    assert_eq!(server.ask(webhook(0, r#"{"user":"mallory","text":"/approve 02020202"}"#)).await.status, 403);
    assert_eq!(
        server.ask(webhook(0, r#"{"user":"alice","user":"x","text":"/approve 02020202"}"#)).await.status,
        422
    );
    let decided = server.gate.asked().iter().filter(|asked| asked.starts_with("chat")).count();
    assert_eq!(decided, 1);
    assert_eq!(
        *server.gate.refused.lock().unwrap(),
        ["webhook unmapped_user mallory", "webhook not_understood -"]
    );
}

#[tokio::test]
async fn what_is_not_signed_as_agreed_is_not_read() {
    let server = Server::start().await;
    let body = command("U1", "02020202");
    let bare = || Wish::new("POST", "/v1/chat/slack").body(&body);
    let signed =
        |time: &str, mac: &str| bare().with("X-Slack-Request-Timestamp", time).with("X-Slack-Signature", mac);
    let good = signature("v0", CHAT_SECRET, 0, &body);
    let tried = [
        bare(),
        signed("0", &signature("v0", "another secret", 0, &body)),
        signed("1", &good),
        signed("0", &signature("v0", CHAT_SECRET, 0, &command("U1", "03030303"))),
        signed("0", &good).with("X-Slack-Signature", "v0=00"),
        slack(301, &body),
        slack(0, &body).body(&command("U1", "02020203")),
        // What one chat signs is not what another does.
        Wish::new("POST", "/v1/chat/webhook")
            .body(&body)
            .with("X-Toolgate-Timestamp", "0")
            .with("X-Toolgate-Signature", &good),
    ];
    for wish in tried {
        let answer = server.ask(wish).await;
        assert_eq!((answer.status, answer.problem().as_str()), (401, "bad_signature"));
    }
    assert_eq!(server.gate.asked(), Vec::<String>::new());
    let refused = server.gate.refused.lock().unwrap().clone();
    assert_eq!(refused.iter().filter(|why| why.ends_with("bad_signature -")).count(), 7);
    assert_eq!(refused.iter().filter(|why| why.ends_with("too_old -")).count(), 1);
}

#[tokio::test]
async fn a_message_is_taken_once() {
    let server = Server::start().await;
    let body = command("U1", "02020202");
    assert_eq!(server.ask(slack(5, &body)).await.status, 200);
    let again = server.ask(slack(5, &body)).await;
    assert_eq!((again.status, again.problem().as_str()), (409, "replayed"));
    assert_eq!(server.gate.asked().iter().filter(|asked| asked.starts_with("chat")).count(), 1);
    assert_eq!(*server.gate.refused.lock().unwrap(), ["slack replayed -"]);
}

#[tokio::test]
async fn somebody_whom_nobody_knows_learns_nothing_of_what_waits() {
    let server = Server::start().await;
    let there = server.ask(slack(1, &command("U9", "02020202"))).await;
    let not_there = server.ask(slack(2, &command("U9", "0f0f0f0f"))).await;
    let other_team = "team_id=T2&user_id=U1&command=%2Fapprove&text=02020202";
    let other_team = server.ask(slack(3, other_team)).await;
    assert_eq!(told(&there), "you are not an operator of this gate");
    assert_eq!((told(&not_there), told(&other_team)), (told(&there), told(&there)));
    assert_eq!(server.gate.asked(), Vec::<String>::new());
}

#[tokio::test]
async fn a_message_that_is_too_long_is_not_read() {
    let server = Server::start().await;
    let long = command("U1", &"0".repeat(20_000));
    assert_eq!(server.ask(slack(0, &long)).await.status, 413);
    assert_eq!(server.gate.asked(), Vec::<String>::new());
}
