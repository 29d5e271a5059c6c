//! Arbitrary bytes as a sequence of reads and as what is read: never a panic, no byte twice, no error that takes
//! any, and each value encoded anew gives the bytes it was read from.
#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_core::wire::Reader;
use phalanx_core::wire::codec::{put_bytes, put_prefixed, put_u8, put_u16, put_u32, put_u64, put_varint, varint_len};

fuzz_target!(|bytes: &[u8]| {
    let Some((&steps, rest)) = bytes.split_first() else { return };
    let (script, data) = rest.split_at(usize::from(steps).min(rest.len()));
    let mut reader = Reader::new(data);
    for &step in script {
        let before = reader.clone();
        let mut again = Vec::new();
        let read = match step % 9 {
            0 => reader.u8().map(|value| put_u8(&mut again, value)),
            1 => reader.u16().map(|value| put_u16(&mut again, value)),
            2 => reader.u32().map(|value| put_u32(&mut again, value)),
            3 => reader.u64().map(|value| put_u64(&mut again, value)),
            4 => reader.varint().map(|value| put_varint(&mut again, value)),
            5 => reader.varint_u32().map(|value| put_varint(&mut again, u64::from(value))),
            6 => reader.prefixed().map(|value| put_prefixed(&mut again, value)),
            7 => reader.bytes(usize::from(step)).map(|value| put_bytes(&mut again, value)),
            _ => reader.array::<5>().map(|value| put_bytes(&mut again, &value)),
        };
        let taken = before.remaining() - reader.remaining();
        match read {
            Ok(()) => assert_eq!(before.clone().bytes(taken), Ok(&again[..])),
            Err(_) => assert_eq!(taken, 0),
        }
        if let (4, Ok(value)) = (step % 9, before.clone().varint()) {
            assert_eq!(varint_len(value), taken);
        }
    }
});
