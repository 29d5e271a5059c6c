//! The functions of libpcap that the tests call.
#![allow(unsafe_code, reason = "a C library, loaded at run time")]

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::mem;

use phalanx_tap::Instruction;

/// `struct bpf_insn`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Insn {
    code: u16,
    yes: u8,
    no: u8,
    k: u32,
}

/// `struct bpf_program`.
#[repr(C)]
struct BpfProgram {
    count: c_uint,
    instructions: *mut Insn,
}

type OpenDead = unsafe extern "C" fn(c_int, c_int) -> *mut c_void;
type Close = unsafe extern "C" fn(*mut c_void);
type Compile = unsafe extern "C" fn(*mut c_void, *mut BpfProgram, *const c_char, c_int, u32) -> c_int;
type FreeCode = unsafe extern "C" fn(*mut BpfProgram);
type Error = unsafe extern "C" fn(*mut c_void) -> *const c_char;
type Filter = unsafe extern "C" fn(*const Insn, *const u8, c_uint, c_uint) -> c_uint;
type Validate = unsafe extern "C" fn(*const Insn, c_int) -> c_int;

/// The library, loaded for as long as the tests run.
pub(super) struct Library {
    open_dead: OpenDead,
    close: Close,
    compile: Compile,
    free_code: FreeCode,
    error: Error,
    filter: Filter,
    validate: Validate,
}

/// Raw IP packets.
const DLT_RAW: c_int = 12;
/// libpcap's way to say that the netmask is not known.
const NETMASK_UNKNOWN: u32 = u32::MAX;
/// The error that the optimiser gives instead of a program that takes nothing.
const TAKES_NOTHING: &str = "expression rejects all packets";

impl Library {
    /// `None`: it is not installed.
    pub(super) fn load() -> Option<Self> {
        let handle = [c"libpcap.so.0.8", c"libpcap.so.1", c"libpcap.so"]
            .into_iter()
            // SAFETY: the name ends with 0. libpcap has no constructor that minds being run in a test.
            .map(|name| unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) })
            .find(|handle| !handle.is_null())?;
        let find = |name: &CStr| {
            // SAFETY: the handle is of a loaded library, and the name ends with 0.
            let found = unsafe { libc::dlsym(handle, name.as_ptr()) };
            (!found.is_null()).then_some(found)
        };
        macro_rules! function {
            ($name:literal, $type:ty) => {{
                let found = find($name)?;
                // SAFETY: the headers of libpcap declare the function with this type.
                unsafe { mem::transmute::<*mut c_void, $type>(found) }
            }};
        }
        Some(Self {
            open_dead: function!(c"pcap_open_dead", OpenDead),
            close: function!(c"pcap_close", Close),
            compile: function!(c"pcap_compile", Compile),
            free_code: function!(c"pcap_freecode", FreeCode),
            error: function!(c"pcap_geterr", Error),
            filter: function!(c"bpf_filter", Filter),
            validate: function!(c"bpf_validate", Validate),
        })
    }

    /// Compiles a filter for raw IP packets.
    pub(super) fn compile(&self, text: &str, optimised: bool) -> Result<Vec<Instruction>, String> {
        let text = CString::new(text).expect("no filter has a 0");
        let snap = c_int::try_from(super::SNAP).expect("it is small");
        // SAFETY: no pointer is passed.
        let pcap = unsafe { (self.open_dead)(DLT_RAW, snap) };
        assert!(!pcap.is_null(), "libpcap has memory");
        let mut program = BpfProgram { count: 0, instructions: std::ptr::null_mut() };
        // SAFETY: `pcap` is open, `program` may be written to, and the text ends with 0.
        let code =
            unsafe { (self.compile)(pcap, &raw mut program, text.as_ptr(), c_int::from(optimised), NETMASK_UNKNOWN) };
        let result = if code == 0 {
            // SAFETY: a compiled program has so many instructions there.
            let instructions = unsafe { std::slice::from_raw_parts(program.instructions, program.count as usize) };
            let ours = |one: &Insn| Instruction { code: one.code, yes: one.yes, no: one.no, k: one.k };
            Ok(instructions.iter().map(ours).collect())
        } else {
            // SAFETY: `pcap` is open.
            let error = unsafe { (self.error)(pcap) };
            // SAFETY: the text ends with 0, and lives as long as `pcap` is open.
            let error = unsafe { CStr::from_ptr(error) }.to_string_lossy().into_owned();
            if error == TAKES_NOTHING { Ok(vec![Instruction::new(phalanx_tap::opcode::RET, 0)]) } else { Err(error) }
        };
        // SAFETY: the program was compiled or is empty, and nobody uses it any more.
        unsafe { (self.free_code)(&raw mut program) };
        // SAFETY: `pcap` is open, and nobody uses it any more.
        unsafe { (self.close)(pcap) };
        result
    }

    /// Whether libpcap would execute a program.
    pub(super) fn accepts(&self, instructions: &[Instruction]) -> bool {
        let theirs = theirs(instructions);
        let count = c_int::try_from(theirs.len()).expect("it is short");
        // SAFETY: there are so many instructions there.
        unsafe { (self.validate)(theirs.as_ptr(), count) != 0 }
    }

    /// libpcap's verdict about a packet of `whole` bytes, of which these are there.
    pub(super) fn verdict(&self, instructions: &[Instruction], bytes: &[u8], whole: u32) -> u32 {
        assert!(self.accepts(instructions), "libpcap must not execute what it does not accept");
        let (theirs, count) = (theirs(instructions), c_uint::try_from(bytes.len()).expect("it is short"));
        // SAFETY: the program is accepted, so it ends with a return and reads no more than `count` bytes.
        unsafe { (self.filter)(theirs.as_ptr(), bytes.as_ptr(), whole, count) }
    }
}

fn theirs(instructions: &[Instruction]) -> Vec<Insn> {
    let theirs = |one: &Instruction| Insn { code: one.code, yes: one.yes, no: one.no, k: one.k };
    instructions.iter().map(theirs).collect()
}
