//! A replicated key-value store: `kv NAME PORT` serves `PUT /key`, `GET /key` and `DELETE /key` over HTTP. Start some
//! copies, each with another name. Each of them holds what 200 acknowledged, and shows it in every later answer. 503 says
//! why this copy cannot answer, and whether a write is in doubt. `PHALANX_*` variables configure the cell.
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use phalanx::{Cell, DecodeError, Group, Message, Replica, Snapshot, State};
use serde::{Deserialize, Serialize};
use signal_hook::{consts::TERM_SIGNALS, iterator::Signals};

#[derive(Serialize, Deserialize)]
enum Request {
    Set(String, Option<Vec<u8>>),
    /// Changes nothing. Who delivered it has delivered every write that was acknowledged before, by any copy.
    Get,
}

#[derive(Default)]
struct Store(BTreeMap<String, Vec<u8>>);

impl State for Store {
    fn apply(&mut self, message: &Message) {
        match message.decode() {
            Ok(Request::Set(key, Some(value))) => drop(self.0.insert(key, value)),
            Ok(Request::Set(key, None)) => drop(self.0.remove(&key)),
            Ok(Request::Get) | Err(_) => {}
        }
    }
    fn snapshot(&self) -> Snapshot {
        Snapshot::encode(&self.0)
    }
    fn restore(snapshot: Snapshot) -> Result<Self, DecodeError> {
        snapshot.decode().map(Self)
    }
}

struct Server {
    cell: Cell,
    group: Group,
    store: Replica<Store>,
}

impl Server {
    /// Returns once every copy has the request, and this one has applied it.
    fn perform(&self, request: &Request) -> Result<(), Box<dyn std::error::Error>> {
        if !self.store.is_current() || !self.cell.standing().is_primary(Duration::from_millis(500)) {
            return Err("this copy is not current".into());
        }
        let sent = self.group.send_value(request).uniform().blocking()?;
        sent.blocking_stable()?;
        Ok(sent.blocking_delivered()?)
    }

    fn answer(&self, method: &str, key: &str, body: Vec<u8>) -> (&'static str, Vec<u8>) {
        let request = match method {
            "PUT" => Request::Set(key.to_owned(), Some(body)),
            "DELETE" => Request::Set(key.to_owned(), None),
            "GET" => Request::Get,
            _ => return ("405 Method Not Allowed", Vec::new()),
        };
        match (self.perform(&request), self.store.read().0.get(key)) {
            (Err(reason), _) => ("503 Service Unavailable", reason.to_string().into_bytes()),
            (Ok(()), Some(value)) if method == "GET" => ("200 OK", value.clone()),
            (Ok(()), None) if method == "GET" => ("404 Not Found", Vec::new()),
            (Ok(()), _) => ("200 OK", Vec::new()),
        }
    }

    /// Serves one connection, which carries one request of at most 1 MiB.
    fn serve(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut input = BufReader::new(stream.try_clone()?).take(1 << 20);
        let mut head = String::new();
        while input.read_line(&mut head)? > "\r\n".len() {}
        let fields = head.to_ascii_lowercase();
        let length = fields.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
        let mut body = vec![0; length.unwrap_or(0).min(1 << 20)];
        input.read_exact(&mut body)?;
        let mut words = head.split_whitespace();
        let (status, body) = self.answer(words.next().unwrap_or(""), words.next().unwrap_or(""), body);
        write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len())?;
        stream.write_all(&body)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, port] = arguments.as_slice() else { return Err("usage: kv NAME PORT".into()) };
    let cell = Cell::builder("kv").environment().name(name).blocking_start()?;
    let store = Replica::new(Store::default());
    let (group, inbox) = cell.group("kv").state(&store).blocking_join()?;
    drop(inbox); // the state is all this program needs
    let (leaving, mut signals) = (cell.clone(), Signals::new(TERM_SIGNALS)?);
    let server: &Server = Box::leak(Box::new(Server { cell, group, store }));
    let listener = TcpListener::bind(("127.0.0.1", port.parse()?))?;
    println!("http://{}", listener.local_addr()?);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(|| server.serve(stream));
        }
    });
    signals.forever().next();
    Ok(leaving.blocking_leave(Duration::from_secs(20))?)
}

#[cfg(test)]
mod tests;
