"""What a memory is, and the rules of records above any provider (Memories chapter, sections 2 to 6 and 9.1).

It keeps a memory's name, description and provider. The tree's shape and every access decision are
authz_service's; a record's content is its provider's and passes through here untouched.
"""
