package frame

var commandNames = [...]string{
	CmdHello:         "HELLO",
	CmdAuth:          "AUTH",
	CmdPing:          "PING",
	CmdMetadata:      "METADATA",
	CmdCreateTopic:   "CREATE TOPIC",
	CmdDeleteTopic:   "DELETE TOPIC",
	CmdAlterTopic:    "ALTER TOPIC",
	CmdListTopics:    "LIST TOPICS",
	CmdDescribeTopic: "DESCRIBE TOPIC",
	CmdProducerID:    "PRODUCER ID",
	CmdProduce:       "PRODUCE",
	CmdPublish:       "PUBLISH",
	CmdFetch:         "FETCH",
	CmdListOffsets:   "LIST OFFSETS",
	CmdSubscribe:     "SUBSCRIBE",
	CmdUnsubscribe:   "UNSUBSCRIBE",
	CmdDeliver:       "DELIVER",
	CmdCredit:        "CREDIT",
	CmdCancel:        "CANCEL",
	CmdError:         "ERROR",
}

// Known says whether version 1 defines the command.
func (c Command) Known() bool { return c >= CmdHello && c <= CmdError }

// String is the command's name in documents and logs.
func (c Command) String() string {
	if c.Known() {
		return commandNames[c]
	}
	return "UNKNOWN"
}
