package main

import "strings"

// splitWords takes a value of -o apart at its commas, as mount(8) does: a comma
// between double quotes or after a backslash is part of a word. The quotes and
// those backslashes are not; a backslash before anything but a comma, a quote
// or a backslash is itself. Empty words are left out.
func splitWords(value string) []string {
	var words []string
	var b strings.Builder
	quoted := false
	end := func() {
		if b.Len() > 0 {
			words = append(words, b.String())
			b.Reset()
		}
	}
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case c == '\\' && i+1 < len(value) && strings.IndexByte(`,"\`, value[i+1]) >= 0:
			i++
			b.WriteByte(value[i])
		case c == '"':
			quoted = !quoted
		case c == ',' && !quoted:
			end()
		default:
			b.WriteByte(c)
		}
	}
	end()
	return words
}

// escapeWord returns the word so that splitWords reads it as one.
func escapeWord(word string) string {
	return strings.NewReplacer(`\`, `\\`, `,`, `\,`, `"`, `\"`).Replace(word)
}

// foreignWords are options that mount(8), systemd and others leave in what
// they hand on, and that are for themselves. Those that begin with "x-" or
// "X-", and comments, are such too.
var foreignWords = map[string]bool{
	"defaults": true, "auto": true, "noauto": true, "nofail": true, "_netdev": true, "_rnetdev": true,
	"user": true, "nouser": true, "users": true, "nousers": true, "owner": true, "noowner": true, "group": true, "nogroup": true,
	"nomand": true, "noiversion": true,
	"default_permissions": true, // every mount has it
}

// foreignKeys are such words with a value: of mount(8), and those that the
// kernel shows of every FUSE mount and mount(8) hands on at a remount.
var foreignKeys = map[string]bool{
	"comment": true, "user": true, "uhelper": true, "helper": true,
	"user_id": true, "group_id": true, "max_read": true, "rootmode": true, "fd": true, "blksize": true,
}

// foreignWord reports whether the word is no option of lockfs's, but of those
// through whose hands it came.
func foreignWord(word string) bool {
	key, _, hasValue := strings.Cut(word, "=")
	switch {
	case strings.HasPrefix(word, "x-"), strings.HasPrefix(word, "X-"):
		return true
	case hasValue:
		return foreignKeys[key]
	}
	return foreignWords[word]
}
