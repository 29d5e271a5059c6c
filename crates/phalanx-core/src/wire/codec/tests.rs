use proptest::prelude::*;

use super::*;

fn varint_of(value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, value);
    out
}

#[test]
fn varints_known_by_hand() {
    assert_eq!(varint_of(0), [0]);
    assert_eq!(varint_of(127), [0x7f]);
    assert_eq!(varint_of(128), [0x80, 1]);
    assert_eq!(varint_of(300), [0xac, 2]);
    assert_eq!(varint_of(u64::MAX), [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]);
}

#[test]
fn varints_have_one_encoding() {
    let refused: [&[u8]; 7] = [
        &[],
        &[0x80],
        &[0x80, 0],
        &[0xff, 0x80, 0],
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2],
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x81, 0],
        &[0xff; 12],
    ];
    for bytes in refused {
        let mut reader = Reader::new(bytes);
        assert_eq!(reader.varint(), Err(Malformed), "{bytes:x?}");
        assert_eq!(reader.remaining(), bytes.len(), "an error takes nothing: {bytes:x?}");
    }
}

#[test]
fn an_error_takes_nothing() {
    let mut reader = Reader::new(&[5, 1, 2]);
    assert_eq!(reader.prefixed(), Err(Malformed));
    assert_eq!(reader.u32(), Err(Malformed));
    assert_eq!(reader.bytes(usize::MAX), Err(Malformed));
    assert_eq!(reader.rest(), [5, 1, 2]);
    assert!(reader.is_empty());

    let wide = varint_of(1 << 32);
    let mut reader = Reader::new(&wide);
    assert_eq!(reader.varint_u32(), Err(Malformed));
    assert_eq!(reader.varint(), Ok(1 << 32));

    let endless = varint_of(u64::MAX);
    assert_eq!(Reader::new(&endless).prefixed(), Err(Malformed));
}

#[derive(Clone, Debug)]
enum Item {
    U8(u8),
    U16(u16),
    U32(u32),
    U64(u64),
    Varint(u64),
    Bytes(Vec<u8>),
    Prefixed(Vec<u8>),
}

fn item() -> impl Strategy<Value = Item> {
    prop_oneof![
        any::<u8>().prop_map(Item::U8),
        any::<u16>().prop_map(Item::U16),
        any::<u32>().prop_map(Item::U32),
        any::<u64>().prop_map(Item::U64),
        // Varints of every length: uniform draws give only long ones.
        (any::<u64>(), 0..64).prop_map(|(value, shift)| Item::Varint(value >> shift)),
        proptest::collection::vec(any::<u8>(), 0..40).prop_map(Item::Bytes),
        proptest::collection::vec(any::<u8>(), 0..300).prop_map(Item::Prefixed),
    ]
}

proptest! {
    #[test]
    fn what_is_put_is_read(items in proptest::collection::vec(item(), 0..20)) {
        let mut out = Vec::new();
        for item in &items {
            match item {
                Item::U8(value) => put_u8(&mut out, *value),
                Item::U16(value) => put_u16(&mut out, *value),
                Item::U32(value) => put_u32(&mut out, *value),
                Item::U64(value) => put_u64(&mut out, *value),
                Item::Varint(value) => {
                    let before = out.len();
                    put_varint(&mut out, *value);
                    prop_assert_eq!(out.len() - before, varint_len(*value));
                }
                Item::Bytes(bytes) => put_bytes(&mut out, bytes),
                Item::Prefixed(bytes) => put_prefixed(&mut out, bytes),
            }
        }
        let mut reader = Reader::new(&out);
        for item in &items {
            match item {
                Item::U8(value) => prop_assert_eq!(reader.u8(), Ok(*value)),
                Item::U16(value) => prop_assert_eq!(reader.u16(), Ok(*value)),
                Item::U32(value) => prop_assert_eq!(reader.u32(), Ok(*value)),
                Item::U64(value) => prop_assert_eq!(reader.u64(), Ok(*value)),
                Item::Varint(value) => prop_assert_eq!(reader.varint(), Ok(*value)),
                Item::Bytes(bytes) => prop_assert_eq!(reader.bytes(bytes.len()), Ok(&bytes[..])),
                Item::Prefixed(bytes) => prop_assert_eq!(reader.prefixed(), Ok(&bytes[..])),
            }
        }
        prop_assert!(reader.is_empty());
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes: Vec<u8>, steps in proptest::collection::vec((0u8..9, any::<usize>()), 0..40)) {
        let mut reader = Reader::new(&bytes);
        for (step, len) in steps {
            let before = reader.remaining();
            let read = match step {
                0 => reader.u8().is_ok(),
                1 => reader.u16().is_ok(),
                2 => reader.u32().is_ok(),
                3 => reader.u64().is_ok(),
                4 => reader.varint().is_ok(),
                5 => reader.varint_u32().is_ok(),
                6 => reader.prefixed().is_ok(),
                7 => reader.bytes(len).is_ok(),
                _ => reader.bytes(len % 8).is_ok(),
            };
            prop_assert!(reader.remaining() <= before);
            prop_assert!(read || reader.remaining() == before);
        }
    }

    #[test]
    fn a_varint_read_is_the_one_encoding(bytes in proptest::collection::vec(any::<u8>(), 0..12)) {
        let mut reader = Reader::new(&bytes);
        if let Ok(value) = reader.varint() {
            let taken = bytes.len() - reader.remaining();
            prop_assert_eq!(&varint_of(value)[..], &bytes[..taken]);
        }
    }
}
