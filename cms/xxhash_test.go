package cms

import (
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"
)

// The hash this library's keys go through is a dependency; these tables pin it, so
// that encoded sketches and filters keep their meaning from version to version and
// machine to machine.

func xxh64(key string, seed uint64) uint64 {
	d := xxhash.NewWithSeed(seed)
	d.WriteString(key)
	return d.Sum64()
}

// From Cyan4973/xxHash, cli/xsum_sanity_check.c.
func TestXXH64OfSanityBuffer(t *testing.T) {
	const prime32, prime64 = 2654435761, 11400714785074694797
	buf := make([]byte, 222)
	g := uint64(prime32)
	for i := range buf {
		buf[i] = byte(g >> 56)
		g *= prime64
	}
	for _, tt := range []struct {
		n    int
		seed uint64
		want uint64
	}{
		{0, 0, 0xef46db3751d8e999},
		{0, prime32, 0xac75fda2929b17ef},
		{1, 0, 0xe934a84adb052768},
		{1, prime32, 0x5014607643a9b4c3},
		{4, 0, 0x9136a0dca57457ee},
		{14, 0, 0x8282dcc4994e35c8},
		{14, prime32, 0xc3bd6bf63deb6df0},
		{222, 0, 0xb641ae8cb691c174},
		{222, prime32, 0x20cb8ab7ae10c14a},
	} {
		require.Equal(t, tt.want, xxh64(string(buf[:tt.n]), tt.seed), "%d bytes, seed %d", tt.n, tt.seed)
		if tt.seed == 0 {
			require.Equal(t, tt.want, xxhash.Sum64(buf[:tt.n]), "%d bytes", tt.n)
		}
	}
}

// From cespare/xxhash, xxhash_test.go.
func TestXXH64OfStringsInAnyChunks(t *testing.T) {
	const call = "Call me Ishmael. Some years ago--never mind how long precisely-"
	for _, tt := range []struct {
		key  string
		seed uint64
		want uint64
	}{
		{"", 0, 0xef46db3751d8e999},
		{"a", 0, 0xd24ec4f1a98c6e5b},
		{"as", 0, 0x1c330fb2d66be179},
		{"asd", 0, 0x631c37ce72a97393},
		{"asdf", 0, 0x415872f599cea71e},
		{call, 0, 0x02a2e85470d6fd96},
		{"", 123, 0xe0db84de91f3e198},
		{"asdf", 1<<64 - 1, 0x9a2fd8473be539b6},
		{call, 54321, 0x1736d186daf5d1cd},
	} {
		for chunk := 1; chunk <= max(1, len(tt.key)); chunk++ {
			d := xxhash.NewWithSeed(tt.seed)
			for rest := tt.key; rest != ""; {
				n := min(chunk, len(rest))
				d.WriteString(rest[:n])
				rest = rest[n:]
			}
			require.Equal(t, tt.want, d.Sum64(), "%q, seed %d, chunks of %d", tt.key, tt.seed, chunk)
		}
		if tt.seed == 0 {
			require.Equal(t, tt.want, xxhash.Sum64String(tt.key), "%q", tt.key)
			require.Equal(t, tt.want, xxhash.Sum64([]byte(tt.key)), "%q", tt.key)
		}
	}
}

// Keys of the shapes a limiter meets, around the block sizes of 8 and 32 bytes
// too. Computed with the reference implementation.
func TestXXH64OfLimiterKeys(t *testing.T) {
	const a31 = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	seeds := [3]uint64{0, 1, 0x9e3779b97f4a7c15}
	for _, tt := range []struct {
		key  string
		want [3]uint64
	}{
		{"192.0.2.1", [3]uint64{0xb745e3600a221c61, 0x41da042c80cf42be, 0x7232e929f7062d6c}},
		{"192.0.2.2", [3]uint64{0xc99727f06ed02978, 0x0c53bc24d83e6796, 0x1436c51812aed398}},
		{"198.51.100.255", [3]uint64{0xa4047839525cb746, 0xd111ca4c43f6134d, 0x420fb02964fd0293}},
		{"2001:db8::1", [3]uint64{0x26c33ef1c67e1031, 0x220c1abd55e7c563, 0xe63d645f043e3de1}},
		{"user:42", [3]uint64{0xdc1fea7da8d2d1c2, 0x2396108e3b1a682b, 0xf030494b6960fa6f}},
		{"user:43", [3]uint64{0x2a42718d08351f24, 0x1d7ab44001ae75d8, 0x66ce6902359f51ef}},
		{"GET /api/v1/items", [3]uint64{0xa56e2d0052a1c3da, 0x103dc7954773eaba, 0xfdcee76b41143c22}},
		{"tenant-a:/login", [3]uint64{0xcd52f5d846220c63, 0xaf112031920ff2e7, 0xbd05e3d03f10494f}},
		{"ключ", [3]uint64{0xa17d2dd13d89d19c, 0x675f47a07a17d006, 0xf912b31a02b23781}},
		{"\x00", [3]uint64{0xe934a84adb052768, 0x771917c7f6ee2451, 0x126bb57a12364aa5}},
		{"\x00\x00", [3]uint64{0x9aaba41ffa2da101, 0x899fb35f8d5447f1, 0x8c74fcf7b4450e74}},
		{a31, [3]uint64{0xfe47067cda802916, 0xfd3d46ba3e5b6bef, 0xd5450b1f42b1a6f1}},
		{a31 + "a", [3]uint64{0x856e843298f99ad7, 0x53ac5803e608ddf7, 0x3179b95a47f88ff7}},
		{a31 + "aa", [3]uint64{0x18f3ff0c21e3b24b, 0x367f51444cb4aee7, 0x6a6f29ea8442c3b7}},
		{"key-000000", [3]uint64{0xf80db9a44a752bf5, 0xaa1c4faac67e5ff6, 0x551327a53b35320c}},
		{"key-999999", [3]uint64{0x02ff3aaf0e638f44, 0x73127c98468706f9, 0x13910fcc1ec3b11f}},
	} {
		for i, seed := range seeds {
			require.Equal(t, tt.want[i], xxh64(tt.key, seed), "%q, seed %#x", tt.key, seed)
		}
		require.Equal(t, tt.want[0], xxhash.Sum64String(tt.key), "%q", tt.key)
	}
}
