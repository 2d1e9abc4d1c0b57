module github.com/slipringmq/slipring

go 1.26
