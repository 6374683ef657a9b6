"""Receivers of what a gate tells: a mail server, a webhook, and a collector that knows the official form of OTLP.

Makes a certificate authority and a password file in the folder that it is given, prints one line with its ports, and then one line of
JSON for each thing that it has received.
"""

import base64
import hashlib
import hmac
import json
import socket
import ssl
import subprocess
import sys
import threading
from email import message_from_bytes
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, SMTP
from google.protobuf.json_format import Parse
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

FOLDER = Path(sys.argv[1])
LOCK = threading.Lock()


def tell(what):
    with LOCK:
        print(json.dumps(what), flush=True)


def openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, cwd=FOLDER, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def certificates():
    """A root, and a server's certificate that it has signed for the loopback address."""
    (FOLDER / "leaf.ext").write_text("subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n")
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
            "-subj", "/CN=root", "-keyout", "root.key", "-out", "root.pem")
    openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-subj", "/CN=mail", "-keyout", "leaf.key", "-out", "leaf.csr")
    openssl("x509", "-req", "-in", "leaf.csr", "-CA", "root.pem", "-CAkey", "root.key", "-CAcreateserial",
            "-days", "2", "-extfile", "leaf.ext", "-out", "leaf.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(FOLDER / "leaf.pem", FOLDER / "leaf.key")
    return context


class Mails:
    async def handle_DATA(self, server, session, envelope):
        mail = message_from_bytes(envelope.content)
        tell({
            "kind": "mail", "from": envelope.mail_from, "to": envelope.rcpt_tos, "subject": mail["Subject"],
            "text": mail.get_payload(decode=True).decode(), "tls": session.ssl is not None,
            "user": session.auth_data.login.decode() if session.auth_data else None,
        })
        return "250 taken"


def authenticate(server, session, envelope, mechanism, data):
    good = data.login == b"gate" and data.password == (FOLDER / "password").read_bytes()
    return AuthResult(success=good, auth_data=data)


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


class Mailbox(Controller):
    def __init__(self, context):
        super().__init__(Mails(), hostname="127.0.0.1", port=free_port(), ready_timeout=30)
        self.context = context

    def factory(self):
        return SMTP(self.handler, tls_context=self.context, require_starttls=True, authenticator=authenticate,
                    auth_required=True)


OTLP = {"/v1/traces": ExportTraceServiceRequest, "/v1/metrics": ExportMetricsServiceRequest, "/v1/logs": ExportLogsServiceRequest}


def with_bytes(value):
    """OTLP writes ids as hexadecimal digits where the reader of JSON expects base64."""
    if isinstance(value, list):
        return [with_bytes(each) for each in value]
    if not isinstance(value, dict):
        return value
    ids = ("traceId", "spanId", "parentSpanId")
    return {key: base64.b64encode(bytes.fromhex(each)).decode() if key in ids else with_bytes(each)
            for key, each in value.items()}


class Posts(BaseHTTPRequestHandler):
    failures = 1

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path in OTLP:
            self.collect(body)
        elif self.path == "/flaky" and Posts.failures > 0:
            Posts.failures -= 1
            tell({"kind": "turned away"})
            return self.answer(503)
        else:
            self.keep(body)
        self.answer(200)

    def answer(self, status):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def collect(self, body):
        try:
            read = Parse(json.dumps(with_bytes(json.loads(body))), OTLP[self.path]())
        except Exception as error:  # whatever is wrong with it, the test is to see it
            return tell({"kind": "bad", "path": self.path, "error": str(error)})
        if self.path == "/v1/traces":
            spans = [span for resource in read.resource_spans for scope in resource.scope_spans for span in scope.spans]
            tell({"kind": "spans", "secret": self.headers["X-Api-Key"], "raw": body.decode(), "spans": [{
                "name": span.name, "trace": span.trace_id.hex() or None, "parent": span.parent_span_id.hex(),
                "id": span.span_id.hex(), "took": span.end_time_unix_nano - span.start_time_unix_nano,
                "attributes": {each.key: each.value.string_value for each in span.attributes},
            } for span in spans]})
        elif self.path == "/v1/metrics":
            names = [metric.name for resource in read.resource_metrics for scope in resource.scope_metrics for metric in scope.metrics]
            tell({"kind": "metrics", "names": names})
        else:
            logs = [log.body.string_value for resource in read.resource_logs for scope in resource.scope_logs for log in scope.log_records]
            tell({"kind": "logs", "logs": logs})

    def keep(self, body):
        signed = self.headers["X-Toolgate-Signature"]
        text = b"v1:" + (self.headers["X-Toolgate-Timestamp"] or "").encode() + b":" + body
        own = "v1=" + hmac.new((FOLDER / "secret").read_bytes(), text, hashlib.sha256).hexdigest()
        tell({"kind": "post", "path": self.path, "signed": signed is not None and hmac.compare_digest(own, signed),
              "body": json.loads(body)})

    def log_message(self, *_):
        pass


def main():
    mailbox = Mailbox(certificates())
    mailbox.start()
    posts = ThreadingHTTPServer(("127.0.0.1", 0), Posts)
    tell({"mail": mailbox.port, "http": posts.server_address[1]})
    posts.serve_forever()


main()
