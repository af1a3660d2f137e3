//! Device mapper's commands about one map of ours: each names it by its UUID, so that no other map can be
//! meant, whatever it is called.

use super::flags;
use super::message::{Command, MapTarget, Message};
use crate::model::advice::{Remedy, advise};
use crate::model::disk::device::DeviceNumber;
use crate::model::error::{Error, Kind, Result};
use crate::model::shield::map_uuid::MapUuid;
use crate::model::shield::table_line::{self, StatusLine, TableLine};
use crate::{kernel, time_limit, worker};
use nix::errno::Errno;
use std::fs::{File, OpenOptions};
use std::path::Path;
use std::time::Duration;

/// How long a map may take to have no request under way. Shorter than what any look at a disk is given.
const DRAINS: Duration = Duration::from_secs(10);

/// The kernel's door to device mapper. To open it loads the module where that is not in the kernel.
const CONTROL: &str = "/dev/mapper/control";

/// What device mapper tells of a map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MapAnswer {
    pub(super) number: DeviceNumber,
    pub(super) opened: u32,
    pub(super) is_suspended: bool,
    pub(super) has_second_table: bool,
    pub(super) sectors: u64,
    pub(super) table: Option<TableLine>,
    pub(super) status: Option<StatusLine>,
}

/// A map of ours, and the way to it.
pub(super) struct Control<'a> {
    file: File,
    uuid: &'a MapUuid,
}

impl<'a> Control<'a> {
    pub(super) fn of(uuid: &'a MapUuid) -> Result<Self> {
        let path = Path::new(CONTROL);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .map_err(|error| Error::io(format!("open {}", path.display()), &error))?;
        Ok(Self { file, uuid })
    }

    /// What it is now; nothing if there is no such map.
    pub(super) fn told(&self) -> Result<Option<MapAnswer>> {
        let Some(answer) = self.ask(Command::Status, flags::NO_FLUSH)? else { return Ok(None) };
        let Some(table) = self.ask(Command::TableStatus, flags::NO_FLUSH | flags::TELL_TABLE)?
        else {
            return Ok(None);
        };
        let Some(status) = self.ask(Command::TableStatus, flags::NO_FLUSH)? else {
            return Ok(None);
        };
        let read = || {
            let is = |flag| Ok(answer.flags()? & flag != 0);
            // Where it has no table, a second one would be told in its place.
            let has_table = is(flags::HAS_TABLE)?;
            let of = |message: &Message| Ok(message.target()?.filter(|_| has_table));
            let (table, status) = (of(&table)?, of(&status)?);
            let ours = |target: &MapTarget| target.kind == table_line::TARGET;
            Ok(MapAnswer {
                number: answer.number()?,
                opened: answer.opened()?,
                is_suspended: is(flags::SUSPENDED)?,
                has_second_table: is(flags::HAS_SECOND_TABLE)?,
                sectors: table.as_ref().map_or(0, |target| target.sectors),
                table: table.filter(ours).and_then(|one| TableLine::parse(&one.parameters)),
                status: status.filter(ours).and_then(|one| StatusLine::parse(&one.parameters)),
            })
        };
        read().map(Some).map_err(|errno| self.failed("read what it tells of", errno))
    }

    /// Makes the map, without a table.
    pub(super) fn create(&self) -> Result<()> {
        let name = self.uuid.to_string();
        let message = self.message(0).and_then(|message| message.named(&name));
        self.send("create", Command::Create, message).map(drop)
    }

    /// Loads a table, which takes the other's place with the next swap.
    pub(super) fn load(&self, sectors: u64, path: DeviceNumber, read_only: bool) -> Result<()> {
        let kind = table_line::TARGET.to_owned();
        let target = MapTarget { sectors, kind, parameters: table_line::parameters(path) };
        let flag = if read_only { flags::READ_ONLY } else { 0 };
        let message = self.message(flag).and_then(|message| message.with_target(&target));
        self.send("load a table for", Command::LoadTable, message).map(drop)
    }

    /// The map goes on; a table that was loaded becomes its own. What waits in the map stays there meanwhile: sent out
    /// first, it would fail.
    pub(super) fn swap(&self) -> Result<()> {
        let message = self.message(flags::NO_FLUSH | flags::SKIP_FREEZE);
        self.send("swap the tables of", Command::Suspend, message).map(drop)
    }

    /// What comes is kept from here on; what has a disk to go to has ended, and what waited is kept too. Where a disk
    /// hangs, what went to it has no end: then it is an error of the kind `Busy`, and the map is not suspended.
    pub(super) fn suspend(&self) -> Result<()> {
        let flags = flags::SUSPENDED | flags::NO_FLUSH | flags::SKIP_FREEZE;
        let suspend = || self.sent("suspend", Command::Suspend, self.message(flags));
        let done = time_limit::within(DRAINS, suspend).flatten();
        done.map(drop).map_err(|errno| match errno {
            Errno::EINTR => self.hangs(),
            errno => self.failed("suspend", errno),
        })
    }

    /// Forgets a table that was loaded.
    pub(super) fn clear(&self) -> Result<()> {
        self.send("clear the loaded table of", Command::ClearTable, self.message(0)).map(drop)
    }

    /// Tells the map's target something, or with an `@` the map itself; what it answers.
    pub(super) fn tell(&self, words: &str) -> Result<String> {
        let what = format!("tell {words} to");
        let message = self.message(0).and_then(|message| message.with_words(words));
        let answer = self.send(&what, Command::Message, message)?;
        answer.words().map_err(|errno| self.failed(&what, errno))
    }

    /// Removes the map. An error of the kind `Busy` if it is open.
    pub(super) fn remove(&self) -> Result<()> {
        self.send("remove", Command::Remove, self.message(0)).map(drop)
    }

    fn message(&self, flags: u32) -> std::result::Result<Message, Errno> {
        Message::about(&self.uuid.to_string(), flags)
    }

    /// Nothing if there is no such map.
    fn ask(&self, command: Command, flags: u32) -> Result<Option<Message>> {
        let mut message = self.message(flags).map_err(|errno| self.failed("ask for", errno))?;
        let _doing = worker::doing(&format_args!("ask for the map {}", self.uuid));
        match kernel::device_mapper(&self.file, command as u8, message.bytes()) {
            Ok(()) => Ok(Some(message)),
            Err(Errno::ENXIO) => Ok(None),
            Err(errno) => Err(self.failed("ask for", errno)),
        }
    }

    fn send(
        &self,
        what: &str,
        command: Command,
        message: std::result::Result<Message, Errno>,
    ) -> Result<Message> {
        self.sent(what, command, message).map_err(|errno| self.failed(what, errno))
    }

    fn sent(
        &self,
        what: &str,
        command: Command,
        message: std::result::Result<Message, Errno>,
    ) -> std::result::Result<Message, Errno> {
        let mut message = message?;
        let _doing = worker::doing(&format_args!("{what} the map {}", self.uuid));
        kernel::device_mapper(&self.file, command as u8, message.bytes()).map(|()| message)
    }

    fn failed(&self, what: &str, errno: Errno) -> Error {
        let error = Error::io(format!("{what} the map {}", self.uuid), &errno.into());
        if errno == Errno::EBUSY { Error { kind: Kind::Busy, ..error } } else { error }
    }

    fn hangs(&self) -> Error {
        let (map, seconds) = (&self.uuid, DRAINS.as_secs());
        Error::new(Kind::Busy, format!("suspend the map {map}: its disk has not answered what was asked of it before for {seconds} s"))
            .hint(advise("nothing was changed; the next call comes to it again, and a disk that does not answer is given up by: {}", [Remedy::DetachByForce.into()]))
    }
}
