//! The bytes of a server-sent event stream, cut into events.
//!
//! A packet may end anywhere: within a line, within a character. Events are therefore cut out of bytes, and what has no
//! line end yet waits for the next packet.

/// Collects packets and gives out the events that are complete.
#[derive(Debug, Default)]
pub(crate) struct Events {
    bytes: Vec<u8>,
    /// Where the next line begins.
    at: usize,
}

impl Events {
    pub fn push(&mut self, packet: &[u8]) {
        self.bytes.drain(..self.at);
        self.at = 0;
        self.bytes.extend_from_slice(packet);
    }

    /// Bytes that no line end has come for.
    pub fn pending(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The payload of the next event. All three servers write an event in one line; comments, which keep a quiet
    /// connection open, and fields other than data are passed over.
    pub fn next(&mut self) -> Option<&[u8]> {
        loop {
            let start = self.at;
            let end = start + self.bytes[start..].iter().position(|&byte| byte == b'\n')?;
            self.at = end + 1;
            // llama-server has reported errors under a name of their own.
            let named = |name: &&[u8]| self.bytes[start..end].starts_with(name);
            if let Some(name) = [b"data:".as_slice(), b"error:"].iter().find(|name| named(name)) {
                return Some(self.bytes[start + name.len()..end].trim_ascii());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(packets: &[&[u8]]) -> Vec<String> {
        let (mut events, mut found) = (Events::default(), Vec::new());
        for packet in packets {
            events.push(packet);
            while let Some(event) = events.next() {
                found.push(String::from_utf8(event.to_vec()).unwrap());
            }
        }
        found
    }

    #[test]
    fn packets_are_cut_into_events() {
        type Case = (&'static str, &'static [&'static [u8]], &'static [&'static str]);
        let cases: [Case; 7] = [
            ("one", &[b"data: {}\n\n"], &["{}"]),
            ("two in a packet", &[b"data: 1\n\ndata: 2\n\n"], &["1", "2"]),
            ("one in two packets", &[b"data: {\"a\"", b": 1}\n\n"], &["{\"a\": 1}"]),
            ("cut within a character", &[b"data: \xe2\x82", b"\xac\n\n"], &["\u{20ac}"]),
            ("carriage returns", &[b"data: 1\r\n\r\ndata: 2\r\n\r\n"], &["1", "2"]),
            ("comments and other fields", &[b": ping\n\nid: 7\ndata:1\n\n"], &["1"]),
            ("never finished", &[b"data: 1\n\ndata: 2"], &["1"]),
        ];
        for (name, packets, expected) in cases {
            assert_eq!(events(packets), expected, "{name}");
        }
    }

    #[test]
    fn it_does_not_matter_where_packets_end() {
        let whole = "data: {\"text\": \"\u{20ac}\"}\r\n\r\n: ping\n\ndata: [DONE]\n\n".as_bytes();
        let expected = events(&[whole]);
        assert_eq!(expected.len(), 2);
        for first in 0..whole.len() {
            for second in first..whole.len() {
                let packets = [&whole[..first], &whole[first..second], &whole[second..]];
                assert_eq!(events(&packets), expected, "cut at {first} and {second}");
            }
        }
    }

    #[test]
    fn errors_are_events_too() {
        assert_eq!(events(&[b"error: {\"code\":500}\n\n"]), ["{\"code\":500}"]);
    }
}
