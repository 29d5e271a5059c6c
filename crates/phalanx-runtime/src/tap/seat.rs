//! A tap point: one thread that polls, with its place at the process's socket.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use phalanx_core::member::Directory;
use phalanx_core::{Instant, MemberInfo};
use phalanx_driver::tap::ring::RingWriter;
use phalanx_driver::tap::{Attachment, Form, Tap};

use super::message::{Attach, Point, PointKind, Reply};
use super::service::{Connection, SERVE_EVERY, Service, Wish};
use crate::config::TapMode;

/// The place of a point at its process's socket. Its owner serves it in each of its rounds.
#[derive(Debug)]
pub(crate) struct Seat {
    service: Arc<Service>,
    point: Point,
    /// As of the last look at the readers' wishes.
    version: u64,
    next: Instant,
    next_names: Instant,
    /// The version of each reader's wish that was carried out, or could not be.
    attached: BTreeMap<u64, u64>,
}

/// What a point knows when it attaches a reader.
pub(crate) struct Known<'a> {
    pub(crate) me: &'a MemberInfo,
    pub(crate) directory: Option<&'a Directory>,
}

impl Seat {
    /// Takes a place. `None` if the setting is off. `directory`: the one of the cell's liveness locks.
    ///
    /// # Errors
    /// The socket cannot be made.
    pub(crate) fn take(
        mode: TapMode,
        directory: &Path,
        kind: PointKind,
        me: &MemberInfo,
    ) -> std::io::Result<Option<Self>> {
        if mode == TapMode::Off {
            return Ok(None);
        }
        let service = Service::of(directory, me.incarnation)?;
        let point = Point {
            number: 0,
            kind,
            name: me.name.clone(),
            data: me.data,
            control: me.control,
            is_clear: mode == TapMode::Clear,
        };
        let number = service.enter(point.clone());
        Ok(Some(Self {
            service,
            point: Point { number, ..point },
            version: 0,
            next: Instant::ZERO,
            next_names: Instant::ZERO,
            attached: BTreeMap::new(),
        }))
    }

    /// Whether it is time to look whether a reader comes, changes or goes.
    #[inline]
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        now >= self.next || self.service.version() != self.version
    }

    /// Does that.
    #[cold]
    pub(crate) fn serve(&mut self, now: Instant, tap: &mut Tap, known: &Known<'_>) {
        let service = Arc::clone(&self.service);
        let Some(mut inner) = service.serve(now) else { return };
        self.next = now + SERVE_EVERY;
        self.version = service.version();
        for (number, error) in tap.take_failed() {
            let why = format!("its filter does not compile any more, with the names of the last view: {error}");
            let reply = Reply::Ended { number: self.point.number, why };
            inner.connections().filter(|one| one.number == number).for_each(|one| one.tell(&reply, None));
        }
        let gone =
            |number: &u64, inner: &mut super::service::Inner| inner.connections().all(|one| one.number != *number);
        let over: Vec<u64> = self.attached.keys().copied().filter(|number| gone(number, &mut inner)).collect();
        for number in over {
            tap.detach(number);
            self.attached.remove(&number);
        }
        for connection in inner.connections() {
            if let Some(wish) = connection.wish.clone()
                && self.attached.get(&connection.number) != Some(&wish.version)
            {
                self.carry_out(connection, wish, tap, known);
            }
        }
        if tap.is_attached() {
            tap.publish();
            if now >= self.next_names {
                self.next_names = now + NAMES_EVERY;
                tap.set_own(known.me);
                tap.tell_names();
            }
        }
    }

    fn carry_out(&mut self, connection: &mut Connection, wish: Wish, tap: &mut Tap, known: &Known<'_>) {
        let Wish { version, filter, attach: Attach { form, snap, ring_bytes, .. } } = wish;
        if form == Form::Clear && !self.point.is_clear {
            return;
        }
        let number = connection.number;
        let is_first = self.attached.insert(number, version).is_none();
        let point = self.point.clone();
        let texts = |unbound: Vec<phalanx_tap::Unbound>| unbound.iter().map(ToString::to_string).collect();
        let outcome = if is_first {
            tap.set_own(known.me);
            if let Some(directory) = known.directory {
                tap.learn(directory);
            }
            match RingWriter::new(ring_bytes) {
                Err(error) => Err(format!("no memory for a ring of {ring_bytes} bytes: {error}")),
                Ok(ring) => {
                    let file = ring.file().try_clone_to_owned();
                    let attachment = Attachment { number, filter, form, snap, ring };
                    match (file, tap.attach(attachment)) {
                        (Ok(file), Ok(unbound)) => {
                            let reply = Reply::Ring { point, unbound: texts(unbound) };
                            connection.tell(&reply, Some(std::os::fd::AsFd::as_fd(&file)));
                            return;
                        }
                        (Err(error), _) => Err(error.to_string()),
                        (_, Err(error)) => Err(error.to_string()),
                    }
                }
            }
        } else {
            tap.change(number, filter, snap).map_err(|error| error.to_string())
        };
        let reply = match outcome {
            Ok(unbound) => Reply::Ring { point, unbound: texts(unbound) },
            Err(why) => {
                tap.detach(number);
                Reply::Ended { number: point.number, why }
            }
        };
        connection.tell(&reply, None);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.service.leave(self.point.number);
    }
}

/// How often readers are given the names again.
const NAMES_EVERY: Duration = Duration::from_secs(2);
